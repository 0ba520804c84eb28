/* A forked child holds nothing of its parent's, and works by itself. */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <sys/wait.h>
#include <unistd.h>

struct family {
    redlatch_client *client;
    redlatch_lock *lock, *other;
    redlatch_lease *lease;
    const char *url;
    struct counter calls, destroyed;
};

static void lost(const char *name, size_t name_len, const char *token, size_t token_len, uint64_t fence,
                 int32_t reason, void *user_data) {
    (void)name, (void)name_len, (void)token, (void)token_len, (void)fence, (void)reason;
    count_up(&((struct family *)user_data)->calls);
}

static void destroy(void *user_data) {
    count_up(&((struct family *)user_data)->destroyed);
}

static void child(struct family *family, int full) {
    int32_t held = 7, reason = 7;
    uint32_t count = 7;
    /* Asks nobody, so that only the at-fork handler can have told. */
    EXPECT(REDLATCH_OK, redlatch_lock_hold_count(family->lock, &count));
    EXPECT(REDLATCH_OK, redlatch_lock_is_held(family->lock, &held));
    CHECK(held == 0 && count == 0);
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_release(family->lock));
    EXPECT(REDLATCH_NOT_HELD, redlatch_lock_check(family->lock));
    EXPECT(REDLATCH_LOST, redlatch_lease_check(family->lease));
    CHECK(redlatch_last_error_lost_reason() == REDLATCH_LOST_FORKED);
    EXPECT(REDLATCH_OK, redlatch_lease_lost_reason(family->lease, &reason));
    CHECK(reason == REDLATCH_LOST_FORKED);
    if (full) {
        EXPECT(REDLATCH_LOST, redlatch_lease_release(family->lease));
        EXPECT(REDLATCH_BUSY, redlatch_lock_try_acquire(family->lock));
        EXPECT(REDLATCH_OK, redlatch_lock_acquire(family->other, 5000));
        EXPECT(REDLATCH_OK, redlatch_lock_check(family->other));
        EXPECT(REDLATCH_OK, redlatch_lock_release(family->other));
        redlatch_lease_free(family->lease);
        redlatch_lock_free(family->other);
        redlatch_lock_free(family->lock);
        redlatch_client_free(family->client);
    }
    CHECK(count_of(&family->calls) == 0 && count_of(&family->destroyed) == 0);
}

static void have_child(struct family *family, int full) {
    int status = 0;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        child(family, full);
        /* Half of them end as a program does that knows nothing of its parent's exit handlers. */
        if (full)
            exit(0);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT(REDLATCH_OK, redlatch_lock_check(family->lock));
    EXPECT(REDLATCH_OK, redlatch_lease_check(family->lease));
    EXPECT(REDLATCH_OK, look_up(family->url, "fork"));
    EXPECT(REDLATCH_OK, look_up(family->url, "fork-lease"));
}

void scenario_fork(char **args) {
    struct family family = {NULL, NULL, NULL, NULL, NULL, COUNTER_INIT, COUNTER_INIT};
    int round;
    family.url = args[0];
    family.client = open_client(args[0]);
    family.lock = new_lock(family.client, "fork");
    family.other = new_lock(family.client, "fork-other");
    family.lease = new_lease(family.client, "fork-lease");
    EXPECT(REDLATCH_OK, redlatch_lock_on_lost(family.lock, lost, &family, destroy));
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(family.lock, 0));
    EXPECT(REDLATCH_OK, redlatch_lease_acquire(family.lease, 0));
    for (round = 0; round < 6; round++)
        have_child(&family, round % 2);
    EXPECT(REDLATCH_OK, redlatch_lock_renew(family.lock));
    EXPECT(REDLATCH_OK, redlatch_lock_release(family.lock));
    EXPECT(REDLATCH_OK, redlatch_lease_release(family.lease));
    redlatch_lease_free(family.lease);
    redlatch_lock_free(family.other);
    redlatch_lock_free(family.lock);
    redlatch_client_free(family.client);
    CHECK(count_of(&family.calls) == 0);
    await_count(&family.destroyed, 1, "ends of the parent's data");
}
