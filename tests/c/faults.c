/* What goes wrong with servers and leases, as statuses. */
#include "support.h"

#include <signal.h>

struct loss {
    struct counter calls;
    int32_t reason;
};

static void lost(const char *name, size_t name_len, const char *token, size_t token_len, uint64_t fence,
                 int32_t reason, void *user_data) {
    struct loss *loss = user_data;
    (void)name, (void)name_len, (void)token, (void)token_len, (void)fence;
    loss->reason = reason;
    count_up(&loss->calls);
}

/* Leases that end by themselves, with their reasons. */
static void ends_as(redlatch_client *client, int32_t reason, int64_t max_hold_ms, int auto_renew) {
    redlatch_lock *lock = new_lock_with(client, "losses", 200, max_hold_ms, auto_renew);
    struct loss loss = {COUNTER_INIT, 0};
    int32_t found = 0, held = 7;
    int64_t left = 7;
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(lock, lost, &loss, NULL));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 5000));
    await_count(&loss.calls, 1, "calls for a lease that ended");
    CHECK(loss.reason == reason);
    EXPECT(REDLATCH_LOST, redlatch_lock_check(lock));
    CHECK(redlatch_last_error_lost_reason() == reason);
    EXPECT(REDLATCH_OK, redlatch_lock_lost_reason(lock, &found));
    EXPECT(REDLATCH_OK, redlatch_lock_is_held(lock, &held));
    EXPECT(REDLATCH_OK, redlatch_lock_remaining_ms(lock, &left));
    CHECK(found == reason && held == 0 && left == 0);
    EXPECT(REDLATCH_LOST, redlatch_lock_release(lock));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_release(lock));
    redlatch_lock_free(lock);
}

void scenario_losses(char **args) {
    redlatch_client *client = open_client(args[0]);
    ends_as(client, REDLATCH_LOST_EXPIRED, 0, 0);
    ends_as(client, REDLATCH_LOST_MAX_HOLD, 300, 1);
    redlatch_client_free(client);
}

static int32_t status_of(const char *name) {
    int32_t status;
    for (status = -99; status < 20; status++) {
        if (strcmp(redlatch_status_name(status), name) == 0)
            return status;
    }
    fprintf(stderr, "no status %s\n", name);
    exit(2);
}

/* refused URL STATUS [MIN_REPLICAS]: every way to ask for the lock "refused" gives the same status. */
void scenario_refused(char **args) {
    int32_t status = status_of(args[1]);
    redlatch_client_options options;
    redlatch_client *client = NULL;
    redlatch_lock *lock;
    redlatch_lease *lease;
    char message[512], *json = NULL;
    EXPECT(REDLATCH_OK, redlatch_client_options_init(&options, sizeof options));
    options.io_timeout_ms = 300;
    options.connect_timeout_ms = 300;
    options.unavailable_after_ms = 500;
    if (args[2] != NULL)
        options.min_replicas = (uint32_t)atoi(args[2]);
    EXPECT(REDLATCH_OK, redlatch_client_open(TEXT(args[0]), &options, &client));
    lock = new_lock(client, "refused");
    lease = new_lease(client, "refused");
    EXPECT(status, redlatch_lock_try_acquire(lock));
    EXPECT(REDLATCH_OK, redlatch_last_error_message(message, sizeof message, NULL));
    CHECK(strstr(message, "refused") != NULL && strstr(message, "hunter2") == NULL);
    EXPECT(status, redlatch_lock_acquire(lock, 100));
    EXPECT(status, redlatch_lock_acquire(lock, REDLATCH_WAIT_FOREVER));
    EXPECT(status, redlatch_lease_try_acquire(lease));
    EXPECT(status, redlatch_lease_acquire(lease, REDLATCH_WAIT_FOREVER));
    /* Looking takes neither replicas nor scripts. */
    if (status != REDLATCH_NOT_REPLICATED && status != REDLATCH_INCOMPATIBLE) {
        json = message;
        EXPECT(status, redlatch_inspect(client, TEXT("refused"), &json));
        CHECK(json == NULL);
        EXPECT(status, redlatch_force_release(client, TEXT("refused")));
    }
    redlatch_lease_free(lease);
    redlatch_lock_free(lock);
    redlatch_client_free(client);
}

/* The test stops the server at the first line, and lets it go on at the second. */
void scenario_outage(char **args) {
    redlatch_client *client = open_quick_client(args[0]);
    redlatch_lock *lock = new_lock(client, "outage"), *kept = new_lock(client, "kept");
    redlatch_lease *lease = new_lease(client, "outage-lease"), *given = new_lease(client, "given");
    char token[REDLATCH_TOKEN_SIZE];
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 1000));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(kept, 1000));
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(lease, 1000));
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(given, 1000));
    say("held");
    wait_for_line();
    EXPECT(REDLATCH_UNAVAILABLE, redlatch_lock_renew(kept));
    EXPECT(REDLATCH_OK, redlatch_lock_check(kept));
    EXPECT(REDLATCH_UNCONFIRMED, redlatch_lock_release(lock));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_release(lock));
    EXPECT(REDLATCH_UNCONFIRMED, redlatch_lease_release(lease));
    EXPECT(REDLATCH_UNAVAILABLE, redlatch_lease_into_token(given, token, sizeof token, NULL));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lease_check(given));
    EXPECT(REDLATCH_UNAVAILABLE, redlatch_lock_acquire(lock, 100));
    say("stopped");
    wait_for_line();
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 10000));
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(lease, 10000));
    EXPECT(REDLATCH_OK, redlatch_lock_renew(kept));
    EXPECT(REDLATCH_OK, redlatch_lock_release(kept));
    EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
    EXPECT(REDLATCH_OK, redlatch_lease_release(lease));
    redlatch_lease_free(given);
    redlatch_lease_free(lease);
    redlatch_lock_free(kept);
    redlatch_lock_free(lock);
    redlatch_client_free(client);
}

/* cut_off URL TLS_CA: the test resets all connections at the first line. A signal that a write to one of them raises
 * would end the program. */
void scenario_cut_off(char **args) {
    redlatch_client_options options;
    redlatch_client *client = NULL;
    redlatch_lock *lock;
    signal(SIGPIPE, SIG_DFL);
    EXPECT(REDLATCH_OK, redlatch_client_options_init(&options, sizeof options));
    options.io_timeout_ms = 300;
    options.connect_timeout_ms = 300;
    options.tls_ca = args[1];
    EXPECT(REDLATCH_OK, redlatch_client_open(TEXT(args[0]), &options, &client));
    lock = new_lock(client, "cut off");
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 5000));
    say("held");
    wait_for_line();
    EXPECT(REDLATCH_UNCONFIRMED, redlatch_lock_release(lock));
    redlatch_lock_free(lock);
    redlatch_client_free(client);
}
