/*-------------------------------------------------------------------------
 *
 * shared.c
 *		Shared memory, when the library was preloaded.
 *
 * Only a library that the postmaster loads can ask for shared memory at the
 * start.  Everything in it makes Alvyn faster or protects the server; nothing
 * that must be right rests on it, as a session that loads the library later
 * has none.  Nothing is allocated after the start, and nothing in it survives
 * a crash: the postmaster has it set up again.
 *
 * What a transaction leaves in shared memory is taken back when it ends.  The
 * callback of resource owners is used for that and not the one of
 * transactions, because it is the only one that runs after the locks are
 * released: a process that is woken there can see, and lock, all that it was
 * woken for.  It runs at commit, abort and prepare, and at the end of a
 * process in the middle of a transaction.
 *
 * Locking
 *		The room is divided at the start; each module says in its own file
 *		what guards its part.  Both know processes by the number of their
 *		entry in the server's own array, which is below MaxBackends for all
 *		that can run SQL.
 *
 * IDENTIFICATION
 *		src/shared.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "gate.h"
#include "miscadmin.h"
#include "shared.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/resowner.h"
#include "wake.h"

static bool active = false;
static shmem_startup_hook_type next_startup = NULL;
#if ALVYN_HAS_REQUEST_HOOK
static shmem_request_hook_type next_request = NULL;
#endif

static void shared_request(void);
static void shared_startup(void);
static void shared_transaction_end(ResourceReleasePhase phase, bool isCommit,
								   bool isTopLevel, void *arg);

/*
 * Ask for shared memory if this is the time.
 */
void
alvyn_shared_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
#if ALVYN_HAS_REQUEST_HOOK
	next_request = shmem_request_hook;
	shmem_request_hook = shared_request;
#else
	shared_request();
#endif
	next_startup = shmem_startup_hook;
	shmem_startup_hook = shared_startup;
	RegisterResourceReleaseCallback(shared_transaction_end, NULL);
}

/*
 * Is there shared memory?
 */
bool
alvyn_shared_active(void)
{
	return active;
}

/*
 * Say how much is needed.
 */
static void
shared_request(void)
{
#if ALVYN_HAS_REQUEST_HOOK
	if (next_request)
		next_request();
#endif
	RequestAddinShmemSpace(alvyn_wake_size() + alvyn_gate_size());
}

/*
 * Set it up, or find it when another process has.
 */
static void
shared_startup(void)
{
	bool		found;
	char	   *room;

	if (next_startup)
		next_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	room = ShmemInitStruct("alvyn", alvyn_wake_size() + alvyn_gate_size(),
						   &found);
	alvyn_wake_attach(room, !found);
	alvyn_gate_attach(room + alvyn_wake_size(), !found);
	LWLockRelease(AddinShmemInitLock);
	active = true;
}

/*
 * A transaction has ended and holds no lock any more.
 */
static void
shared_transaction_end(ResourceReleasePhase phase, bool isCommit,
					   bool isTopLevel, void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !isTopLevel)
		return;
	alvyn_gate_transaction_end(isCommit ? alvyn_wake_taken : 0);
	alvyn_wake_transaction_end();
}
