/*
 * A service worker in C that does a job again and again, in as many processes as you like, each time under a lock.
 *
 *     worker URL JOB [ROUNDS]
 *
 *     ./worker redis://127.0.0.1:6379/0 nightly-report
 *
 * SIGTERM or SIGINT ends it: a wait for the lock is called off, a job that runs is finished. It exits with 0 then, and
 * after ROUNDS rounds; with 1 when the lock cannot be had for another reason than that somebody else has it.
 */
#include <redlatch.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Between two rounds, and for one step of the job. */
enum { PAUSE_MS = 200, STEP_MS = 20, STEPS = 5 };

static atomic_int stopping;

/* What another thread tells the job: its lease is lost. */
static atomic_int lost;

static void sleep_ms(long ms) {
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* Says what the last call failed with. */
static int failed(const char *what, int32_t status) {
    char message[512];
    redlatch_last_error_message(message, sizeof message, NULL);
    fprintf(stderr, "%s: %s (%s)\n", what, message, redlatch_status_name(status));
    return 1;
}

/* Signals arrive on a thread of their own, which waits for them: no function of redlatch is for signal handlers. */
static void *wait_for_signal(void *cancel) {
    sigset_t signals;
    int number;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigwait(&signals, &number);
    atomic_store(&stopping, 1);
    redlatch_cancel_fire(cancel);
    return NULL;
}

/* On a thread of the client's, within milliseconds of the deadline. Short, and it only sets a flag. */
static void on_lost(const char *name, size_t name_len, const char *token, size_t token_len, uint64_t fence,
                    int32_t reason, void *user_data) {
    (void)token, (void)token_len;
    atomic_store((atomic_int *)user_data, 1);
    fprintf(stderr, "lost %.*s, fence %llu: %s\n", (int)name_len, name, (unsigned long long)fence,
            redlatch_lost_reason_name(reason));
}

/* The warnings of the library, such as a renewal that is late. */
static void on_log(int32_t level, const char *target, size_t target_len, const char *message, size_t message_len,
                   void *user_data) {
    (void)level, (void)user_data;
    fprintf(stderr, "%.*s: %.*s\n", (int)target_len, target, (int)message_len, message);
}

/* The job, while the lock is held: 0, or 1 where it had to stop because the lock was lost. */
static int work(const redlatch_lock *lock, const char *job) {
    uint64_t fence = 0;
    int step;
    if (redlatch_lock_fence(lock, &fence) != REDLATCH_OK) return 1;

    /* First of all the protected resource notes the fence, and refuses from now on whoever comes with a lower one. */
    printf("UPDATE jobs SET fence = %llu WHERE name = '%s' AND fence <= %llu\n", (unsigned long long)fence, job,
           (unsigned long long)fence);

    /* Long work asks now and then whether it is still worth going on. */
    for (step = 0; step < STEPS; step++) {
        if (atomic_load(&lost)) return 1;
        sleep_ms(STEP_MS);
    }

    /* Right before the step that must not happen twice. The fence in the statement is what makes it safe: a process can
     * stall after the check, too. */
    if (redlatch_lock_check(lock) != REDLATCH_OK) return 1;
    printf("UPDATE jobs SET done = now() WHERE name = '%s' AND fence = %llu\n", job, (unsigned long long)fence);
    fflush(stdout);
    return 0;
}

/* One round: 0, or 1 where going on makes no sense. */
static int one_round(redlatch_lock *lock, redlatch_cancel *cancel, const char *job) {
    int32_t status = redlatch_lock_acquire_cancellable(lock, 5000, cancel);
    int stopped;
    switch (status) {
        case REDLATCH_OK: break;
        case REDLATCH_TIMED_OUT: printf("another worker does %s\n", job); return 0;
        case REDLATCH_CANCELLED: return 0;
        case REDLATCH_UNAVAILABLE: failed("the server is away", status); return 0; /* Next round, perhaps. */
        default: return failed("acquire", status);
    }
    atomic_store(&lost, 0);
    stopped = work(lock, job);

    /* It says how it ended: only now it is sure that no other holder was there meanwhile. */
    status = redlatch_lock_release(lock);
    if (status == REDLATCH_UNCONFIRMED) fprintf(stderr, "not confirmed: others wait for the ttl at most\n");
    if (status < 0) failed("release", status);
    if (stopped) fprintf(stderr, "%s was left undone\n", job);
    return 0;
}

static int run(redlatch_client *client, redlatch_cancel *cancel, const char *job, long rounds) {
    redlatch_lock_options options;
    redlatch_lock *lock = NULL;
    int32_t status;
    int result = 0;

    /* Others wait at most ttl for a worker that died. No job may take longer than max_hold, whatever it does. */
    redlatch_lock_options_init(&options, sizeof options);
    options.ttl_ms = 10000;
    options.max_hold_ms = 600000;
    status = redlatch_lock_new(client, job, REDLATCH_NUL_TERMINATED, &options, &lock);
    if (status != REDLATCH_OK) return failed("lock", status);
    redlatch_lock_on_lost(lock, on_lost, &lost, NULL);

    while (result == 0 && !atomic_load(&stopping) && rounds-- != 0) {
        result = one_round(lock, cancel, job);
        sleep_ms(PAUSE_MS);
    }
    redlatch_lock_free(lock);
    return result;
}

int main(int argc, char **argv) {
    redlatch_client_options options;
    redlatch_client *client = NULL;
    redlatch_cancel *cancel = NULL;
    pthread_t signal_thread;
    sigset_t signals;
    int32_t status;
    int result = 1;

    if (argc < 3) {
        fprintf(stderr, "usage: %s URL JOB [ROUNDS]\n", argv[0]);
        return 2;
    }
    redlatch_set_log(on_log, NULL, REDLATCH_LOG_WARN);

    /* Before any thread starts, so that all of them inherit it and only wait_for_signal gets the signals. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    redlatch_client_options_init(&options, sizeof options);
    options.label = "worker";
    status = redlatch_client_open(argv[1], REDLATCH_NUL_TERMINATED, &options, &client);
    if (status != REDLATCH_OK) return failed("client", status);
    if (redlatch_cancel_new(&cancel) == REDLATCH_OK &&
        pthread_create(&signal_thread, NULL, wait_for_signal, cancel) == 0) {
        result = run(client, cancel, argv[2], argc > 3 ? strtol(argv[3], NULL, 10) : -1);
        /* After ROUNDS rounds it still waits. */
        pthread_kill(signal_thread, SIGTERM);
        pthread_join(signal_thread, NULL);
    }
    redlatch_cancel_free(cancel);
    redlatch_client_free(client);
    return result;
}
