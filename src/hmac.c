/*-------------------------------------------------------------------------
 *
 * hmac.c
 *		Signatures of received messages.
 *
 * HMAC-SHA-256 as PostgreSQL itself computes it for SCRAM, which is OpenSSL's
 * where the server was built with it, as Debian's is.  The server frees the
 * contexts of a call that fails, and wipes their memory.
 *
 * All secrets are tried, also after one has fitted, and a comparison reads all
 * bytes whatever it finds: how long a call takes tells nothing about secrets
 * or signatures, but how many secrets there are.
 *
 * IDENTIFICATION
 *		src/hmac.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hmac.h"
#include "common/sha2.h"
#include "compat.h"
#include "fmgr.h"
#include "utils/array.h"

PG_FUNCTION_INFO_V1(alvyn_hmac_matches);

static void hmac_compute(const bytea *secret, const bytea *body,
						 uint8 *result);
static uint8 hmac_difference(const uint8 *a, const uint8 *b, Size length);

/*
 * alvyn.hmac_matches(body bytea, secrets bytea[], signature bytea)
 * returns boolean
 *
 * Is the signature the HMAC-SHA-256 of the body with one of the secrets?
 */
Datum
alvyn_hmac_matches(PG_FUNCTION_ARGS)
{
	bytea	   *body = PG_GETARG_BYTEA_PP(0);
	ArrayType  *secrets = PG_GETARG_ARRAYTYPE_P_COPY(1);
	bytea	   *signature = PG_GETARG_BYTEA_PP(2);
	uint8		computed[PG_SHA256_DIGEST_LENGTH];
	bool		matches = false;
	Datum	   *values;
	bool	   *nulls;
	int			count;
	int			i;

	if (VARSIZE_ANY_EXHDR(signature) != PG_SHA256_DIGEST_LENGTH)
		PG_RETURN_BOOL(false);
	deconstruct_array(secrets, BYTEAOID, -1, false, TYPALIGN_INT, &values,
					  &nulls, &count);
	for (i = 0; i < count; i++)
	{
		if (nulls[i])
			continue;
		hmac_compute(DatumGetByteaPP(values[i]), body, computed);
		matches |= hmac_difference(computed,
								   (uint8 *) VARDATA_ANY(signature),
								   sizeof(computed)) == 0;
	}
	explicit_bzero(computed, sizeof(computed));
	explicit_bzero(secrets, VARSIZE(secrets));
	PG_RETURN_BOOL(matches);
}

/*
 * The HMAC-SHA-256 of a body.
 */
static void
hmac_compute(const bytea *secret, const bytea *body, uint8 *result)
{
	pg_hmac_ctx *ctx = pg_hmac_create(PG_SHA256);

	if (!ctx ||
		pg_hmac_init(ctx, (const uint8 *) VARDATA_ANY(secret),
					 VARSIZE_ANY_EXHDR(secret)) < 0 ||
		pg_hmac_update(ctx, (const uint8 *) VARDATA_ANY(body),
					   VARSIZE_ANY_EXHDR(body)) < 0 ||
		pg_hmac_final(ctx, result, PG_SHA256_DIGEST_LENGTH) < 0)
		elog(ERROR, "could not compute HMAC: %s", alvyn_hmac_error(ctx));
	pg_hmac_free(ctx);
}

/*
 * 0 when two areas are equal, found in a time that depends on the length only.
 */
static uint8
hmac_difference(const uint8 *a, const uint8 *b, Size length)
{
	volatile uint8 difference = 0;
	Size		i;

	for (i = 0; i < length; i++)
		difference |= a[i] ^ b[i];
	return difference;
}
