/*-------------------------------------------------------------------------
 *
 * wake.c
 *		Sleeping until somebody has appended.
 *
 * Whoever waits for events looks at the feed, sleeps, and looks again.  The
 * look alone decides; what is here only ends the sleep early.  So a wake-up
 * may come too soon, twice or for nothing, and the wait stays right when none
 * comes.
 *
 * With shared memory there is a bit for each process.  A waiter sets its own,
 * which arms it, and then looks.  A transaction that has taken positions
 * reads the bits when it has ended; with none set, nothing is left to do.
 * Otherwise it clears those of its database and sets the latches.  A waiter
 * is armed before it looks, and a transaction is visible, and its holes are
 * final, before it reads the bits, with a memory barrier between the two on
 * either side.  So one of them sees the other, and no event falls between the
 * look and the sleep.
 *
 * NOTIFY does not do: it takes a lock of the whole server at commit, which
 * makes all commits wait for each other.
 *
 * Costs
 *		The bit is cleared by who wakes, so that a waiter which has not got
 *		round to running is not woken by every further commit.  One that was
 *		woken for nothing, for what it waits for is not there yet or belongs
 *		to others, pauses before it is armed again: the busiest appenders wake
 *		it some hundred times a second.
 *
 * What wakes nobody
 *		COMMIT PREPARED, which another process runs; rows that were not
 *		inserted by Alvyn; the end of a transaction of a process that was
 *		killed.  So waiters also look by themselves, more often where prepared
 *		transactions are possible.  Without shared memory that is all they do.
 *
 * Locking
 *		armed: atomic operations, which are full barriers.
 *		databases: each process writes its own entry, before it sets its bit.
 *		An entry that is read late leads to a latch that is set for nothing.
 *
 * IDENTIFICATION
 *		src/wake.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "compat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "shared.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"
#include "wake.h"

/* Without wake-ups: between two looks, doubled from the first to the last. */
#define LOOK_FIRST_MS		1
#define LOOK_LAST_MS		50

/* The same where everything that is expected wakes. */
#define LOOK_RARELY_MS		1000

/* After a wake-up for nothing, doubled while one follows the other. */
#define PAUSE_FIRST_MS		1
#define PAUSE_LAST_MS		16

#define BITS				32

PG_FUNCTION_INFO_V1(alvyn_waiters);

uint64		alvyn_wake_taken = 0;

/* In shared memory, or NULL. */
static pg_atomic_uint32 *armed = NULL;
static Oid *databases = NULL;

/* This process as a waiter. */
static bool exit_registered = false;
static bool woken;
static long look_ms;
static long pause_ms = PAUSE_FIRST_MS;

static int	wake_words(void);
static void wake_word(int word);
static void wake_arm(void);
static void wake_at_exit(int code, Datum arg);

/*
 * alvyn.waiters() returns int
 *
 * How many sessions of this database sleep until they are woken, null without
 * shared memory.
 */
Datum
alvyn_waiters(PG_FUNCTION_ARGS)
{
	int			count = 0;
	int			i;

	if (armed == NULL)
		PG_RETURN_NULL();
	for (i = 0; i < wake_words() * BITS; i++)
	{
		if ((pg_atomic_read_u32(&armed[i / BITS]) & (1U << i % BITS)) &&
			databases[i] == MyDatabaseId)
			count++;
	}
	PG_RETURN_INT32(count);
}

/*
 * Shared memory that is needed: the bits, and the database of each.
 */
Size
alvyn_wake_size(void)
{
	return CACHELINEALIGN(wake_words() *
						  (sizeof(pg_atomic_uint32) + BITS * sizeof(Oid)));
}

/*
 * Use a piece of shared memory.
 */
void
alvyn_wake_attach(void *room, bool fresh)
{
	int			i;

	armed = room;
	databases = (Oid *) (armed + wake_words());
	for (i = 0; fresh && i < wake_words(); i++)
		pg_atomic_init_u32(&armed[i], 0);
}

/*
 * Wake who waits for what a transaction may have appended, or for the holes
 * that it may have left.
 */
void
alvyn_wake_transaction_end(void)
{
	int			i;

	if (alvyn_wake_taken == 0)
		return;
	alvyn_wake_taken = 0;
	pg_memory_barrier();
	for (i = 0; i < wake_words(); i++)
	{
		if (pg_atomic_read_u32(&armed[i]) != 0)
			wake_word(i);
	}
}

/*
 * Wake the waiters of this database in one word.
 */
static void
wake_word(int word)
{
	uint32		rest = pg_atomic_read_u32(&armed[word]);
	uint32		mine = 0;

	for (; rest != 0; rest &= rest - 1)
	{
		int			bit = pg_rightmost_one_pos32(rest);

		if (databases[word * BITS + bit] == MyDatabaseId)
			mine |= 1U << bit;
	}
	if (mine == 0)
		return;

	/* Of several that come here at once, one gets each bit. */
	mine &= pg_atomic_fetch_and_u32(&armed[word], ~mine);
	for (; mine != 0; mine &= mine - 1)
	{
		int			bit = pg_rightmost_one_pos32(mine);

		SetLatch(&GetPGProcByNumber(word * BITS + bit)->procLatch);
	}
}

/*
 * Begin to wait.
 */
void
alvyn_wake_begin(void)
{
	woken = false;
	look_ms = LOOK_FIRST_MS;
	if (armed && max_prepared_xacts == 0)
		look_ms = LOOK_RARELY_MS;
	if (armed && !exit_registered)
	{
		before_shmem_exit(wake_at_exit, 0);
		exit_registered = true;
	}
	wake_arm();
}

/*
 * Sleep until it is worth while to look again, at most so long.
 */
void
alvyn_wake_sleep(long at_most_ms)
{
	if (woken && armed)
	{
		(void) WaitLatch(NULL, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(at_most_ms, pause_ms), PG_WAIT_EXTENSION);
		pause_ms = Min(pause_ms * 2, PAUSE_LAST_MS);
		woken = false;
	}
	else
	{
		TimestampTz start = GetCurrentTimestamp();
		int			event = WaitLatch(MyLatch,
									  WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
									  Min(at_most_ms, look_ms), PG_WAIT_EXTENSION);

		woken = (event & WL_LATCH_SET) != 0;
		look_ms = Min(look_ms * 2, Max(look_ms, LOOK_LAST_MS));
		if (TimestampDifferenceExceeds(start, GetCurrentTimestamp(),
									   PAUSE_LAST_MS))
			pause_ms = PAUSE_FIRST_MS;
	}
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	wake_arm();
}

/*
 * Done with waiting.
 */
void
alvyn_wake_end(void)
{
	int			me = alvyn_proc_number();

	if (armed)
		pg_atomic_fetch_and_u32(&armed[me / BITS], ~(1U << me % BITS));
}

/*
 * From here on the end of an append in this database wakes this process.
 */
static void
wake_arm(void)
{
	int			me = alvyn_proc_number();

	if (armed == NULL)
		return;
	databases[me] = MyDatabaseId;
	pg_atomic_fetch_or_u32(&armed[me / BITS], 1U << me % BITS);
}

/*
 * The process ends.
 */
static void
wake_at_exit(int code, Datum arg)
{
	alvyn_wake_end();
}

/*
 * Words of bits for all processes.
 */
static int
wake_words(void)
{
	return (alvyn_max_backends() + BITS - 1) / BITS;
}
