# Alvyn, an event store inside PostgreSQL.
#
#   make, make install, make installcheck     as with every PGXS extension
#   make demo, make test                      all by themselves, see below
#   make lint, make indent, make clean

EXTENSION = alvyn
EXTVERSION = $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" alvyn.control)
PGFILEDESC = "alvyn - event store inside PostgreSQL"

MODULE_big = alvyn
OBJS = \
	src/alvyn.o \
	src/log.o \
	src/stream.o \
	src/place.o \
	src/event.o \
	src/scan.o \
	src/append.o \
	src/request.o \
	src/idempotency.o \
	src/verify.o \
	src/digest.o \
	src/aggregates.o \
	src/replay.o \
	src/rules.o \
	src/rulestate.o \
	src/definition.o \
	src/fold.o \
	src/snapshot.o \
	src/refold.o \
	src/execute.o \
	src/streamname.o \
	src/pending.o \
	src/feed.o \
	src/page.o \
	src/retention.o \
	src/read.o \
	src/projection.o \
	src/worker.o \
	src/hmac.o \
	src/tally.o \
	src/cell.o \
	src/governor.o \
	src/shared.o \
	src/wake.o \
	src/gate.o \
	src/tenant.o \
	src/outbox.o
PG_CPPFLAGS = -I$(srcdir)/src

# Order matters: later parts use what earlier ones create.
INSTALL_SQL = \
	sql/install/00_guard.sql \
	sql/install/10_types.sql \
	sql/install/11_tables.sql \
	sql/install/20_append.sql \
	sql/install/21_load.sql \
	sql/install/22_verify.sql \
	sql/install/30_snapshot.sql \
	sql/install/35_retention.sql \
	sql/install/40_feed.sql \
	sql/install/41_consumer.sql \
	sql/install/42_projection.sql \
	sql/install/43_worker.sql \
	sql/install/44_outbox.sql \
	sql/install/45_governor.sql \
	sql/install/46_inbox.sql \
	sql/install/47_cloudevent.sql \
	sql/install/48_tenant.sql \
	sql/install/50_gate.sql \
	sql/install/90_maintain.sql \
	sql/install/91_status.sql \
	sql/install/99_privilege.sql
DATA_built = sql/$(EXTENSION)--$(EXTVERSION).sql
DATA = $(filter-out $(DATA_built),$(wildcard sql/$(EXTENSION)--*.sql))

# Inputs live in test/, expected output in expected/.  "make installcheck"
# uses the installed extension and the running server, as PGXS does
# everywhere; "make test" needs neither.
REGRESS = \
	version \
	append \
	append_batch \
	append_streams \
	try_append \
	append_errors \
	messages \
	expected_version \
	idempotency \
	load \
	list_streams \
	stream \
	values \
	names \
	verify \
	aggregates \
	transactions \
	owner \
	guards \
	privileges \
	search_path \
	sanity \
	rules \
	rules_errors \
	state \
	snapshot \
	snapshot_marks \
	snapshot_errors \
	snapshot_verify \
	snapshot_privileges \
	decider \
	decider_errors \
	execute_streams \
	feed \
	feed_errors \
	read_page \
	read_page_errors \
	read_backwards \
	retention \
	retention_errors \
	retention_readers \
	consumer \
	consumer_errors \
	consumer_group \
	projection \
	projection_errors \
	projection_privileges \
	outbox \
	outbox_dead \
	outbox_errors \
	governor \
	governor_errors \
	cloudevent \
	cloudevent_errors \
	inbox \
	inbox_errors \
	tenant \
	tenant_errors \
	status
REGRESS_OPTS = --inputdir=test --load-extension=$(EXTENSION)
ISOLATION = \
	race_expected \
	race_snapshot \
	race_any \
	race_order \
	race_cancel \
	race_key \
	race_try \
	race_check \
	race_wide \
	race_many \
	no_waiting \
	snapshot_race \
	snapshot_definition \
	execute_new \
	execute_order \
	execute_level \
	feed_order \
	feed_holes \
	feed_behind \
	feed_unrelated \
	feed_cancel \
	feed_snapshot \
	feed_changes \
	page_order \
	retention_race \
	consumer_race \
	consumer_lease \
	projection_race \
	projection_rebuild \
	inbox_race \
	tenant_quota \
	outbox_race
ISOLATION_OPTS = --inputdir=test --outputdir=. --load-extension=$(EXTENSION)

# TAP tests start servers of their own, which root may not.
PROVE_TESTS = $(sort $(wildcard test/t/*.pl))
ifneq ($(PROVE_TESTS),)
ifneq ($(shell id -u),0)
TAP_TESTS = 1
endif
endif

EXTRA_CLEAN = results regression.diffs regression.out log \
	tmp_check tmp_check_iso output_iso

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)

# "make demo" and "make test" have to work before there is any PostgreSQL
# on the machine, because they install it.
ifneq ($(wildcard $(PGXS)),)
include $(PGXS)
else
all install uninstall installcheck:
	@echo "$(PG_CONFIG) or the server headers behind it are missing." >&2; \
	echo "Install postgresql-server-dev-NN, or name another installation" >&2; \
	echo "with PG_CONFIG=/path/to/pg_config.  \"make demo\" and" >&2; \
	echo "\"make test\" install what they need." >&2; \
	exit 1
clean:
	rm -rf $(EXTRA_CLEAN) $(DATA_built) $(MODULE_big).so \
		$(OBJS) $(OBJS:.o=.bc)
.PHONY: all install uninstall installcheck clean
endif

# Debian's PGXS tracks no header dependencies.
$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h)

# By way of a second name, so that a failed cat leaves no half script.
sql/$(EXTENSION)--$(EXTVERSION).sql: $(INSTALL_SQL) $(EXTENSION).control
	cat $(INSTALL_SQL) > $@.tmp
	mv $@.tmp $@

clean: clean-bench
clean-bench:
	test ! -f bench/Makefile || $(MAKE) -C bench clean

demo:
	@bench/demo

# SUITES="regress tap" and TESTS="append" narrow it down.
test:
	@test/run $(SUITES)

lint:
	@test/run lint

indent:
	@test/packages pg-bsd-indent universal-ctags
	@test/lint/indent

# For scripts: "make -s show-REGRESS" prints the list of tests.
show-%:
	@echo $($*)

.PHONY: clean-bench demo test lint indent
