/* A process whose threads wait, hold and renew forks again and again: no child hangs, and nothing of the parent changes. */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <sys/wait.h>
#include <unistd.h>

enum { HOLDERS = 3, BUSY = 2, WAITERS = 2, THREADS = HOLDERS + BUSY + WAITERS, AT_ONCE = 3 };

static struct shared {
    redlatch_client *client;
    struct counter held, stop;
} shared = {NULL, COUNTER_INIT, COUNTER_INIT};

static char names[HOLDERS][8] = {"held 0", "held 1", "held 2"};

static bool stopped(void) {
    return count_of(&shared.stop) > 0;
}

/* Holds one lock all the time, under one token, renewed by the background and by hand. */
static void *hold(void *name) {
    redlatch_lock *lock = new_lock_with(shared.client, name, 10000, 0, 1);
    char first[REDLATCH_TOKEN_SIZE], token[REDLATCH_TOKEN_SIZE];
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 5000));
    EXPECT(REDLATCH_OK, redlatch_lock_token(lock, first, sizeof first, NULL));
    count_up(&shared.held);
    while (!stopped()) {
        EXPECT(REDLATCH_OK, redlatch_lock_check(lock));
        EXPECT(REDLATCH_OK, redlatch_lock_renew(lock));
        EXPECT(REDLATCH_OK, redlatch_lock_token(lock, token, sizeof token, NULL));
        CHECK(strcmp(first, token) == 0);
        pause_ms(5);
    }
    EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
    redlatch_lock_free(lock);
    return NULL;
}

static void *take_turns(void *unused) {
    redlatch_lock *lock = new_lock(shared.client, "busy");
    (void)unused;
    while (!stopped()) {
        EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, 30000));
        EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
    }
    redlatch_lock_free(lock);
    return NULL;
}

static void *wait_in_vain(void *unused) {
    redlatch_lock *lock = new_lock(shared.client, names[0]);
    (void)unused;
    while (!stopped()) {
        int32_t status = redlatch_lock_acquire(lock, 100);
        if (status == REDLATCH_OK) {
            /* Its holder ends with this. */
            CHECK(stopped());
            EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
        } else {
            EXPECT(REDLATCH_TIMED_OUT, status);
        }
    }
    redlatch_lock_free(lock);
    return NULL;
}

static void child(void) {
    char name[64];
    redlatch_lock *own;
    /* Ends only the child, by itself, should it hang. */
    alarm(30);
    snprintf(name, sizeof name, "child %ld", (long)getpid());
    own = new_lock(shared.client, name);
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(own, 20000));
    EXPECT(REDLATCH_OK, redlatch_lock_check(own));
    EXPECT(REDLATCH_OK, redlatch_lock_release(own));
    _exit(0);
}

static void reap(pid_t pid) {
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    /* By a signal: the alarm of a child that hangs. */
    CHECK(!WIFSIGNALED(status));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* forks URL COUNT */
void scenario_forks(char **args) {
    pthread_t threads[THREADS];
    pid_t running[AT_ONCE] = {0};
    int at, count = atoi(args[1]);
    shared.client = open_client(args[0]);
    for (at = 0; at < HOLDERS; at++)
        threads[at] = start_thread(hold, names[at]);
    await_count(&shared.held, HOLDERS, "locks that are held");
    for (; at < HOLDERS + BUSY; at++)
        threads[at] = start_thread(take_turns, NULL);
    for (; at < THREADS; at++)
        threads[at] = start_thread(wait_in_vain, NULL);
    for (at = 0; at < count + AT_ONCE; at++) {
        pid_t *slot = &running[at % AT_ONCE];
        if (*slot != 0)
            reap(*slot);
        *slot = at < count ? fork() : 0;
        CHECK(*slot >= 0);
        if (at < count && *slot == 0)
            child();
    }
    count_up(&shared.stop);
    for (at = 0; at < THREADS; at++)
        join_thread(threads[at]);
    redlatch_client_free(shared.client);
}
