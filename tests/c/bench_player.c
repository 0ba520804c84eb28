/*
 * A C process that the benchmark steers by lines on standard input: bench_player URL. As bench_player URL first it tells
 * when it started, when it began to open a client, when its first lock was granted and when that was released.
 *
 * pair COUNT    answers "took" and the time of each uncontended pair of acquire and release
 * nested COUNT  answers "took" and the mean time of a nested pair
 *
 * Times are nanoseconds.
 */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include "bench_times.h"

static void pairs(redlatch_lock *lock, int count) {
    static int64_t took[MOST_TIMES];
    int at;
    CHECK(count <= MOST_TIMES);
    for (at = 0; at < count; at++) {
        int64_t begin = now();
        EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, REDLATCH_WAIT_FOREVER));
        EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
        took[at] = now() - begin;
    }
    say_times(took, count);
}

static void nested(redlatch_lock *lock, int count) {
    int64_t begin, end;
    int at, failed = 0;
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, REDLATCH_WAIT_FOREVER));
    begin = now();
    for (at = 0; at < count; at++) {
        failed |= redlatch_lock_acquire(lock, REDLATCH_WAIT_FOREVER) != REDLATCH_OK;
        failed |= redlatch_lock_release(lock) != REDLATCH_STILL_HELD;
    }
    end = now();
    CHECK(!failed);
    EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
    printf("took %.2f", (double)(end - begin) / count);
    say("");
}

static void first_lock(const char *url) {
    int64_t started = now(), granted;
    redlatch_client *client = open_client(url);
    redlatch_lock *lock = new_lock(client, "bench:first");
    EXPECT(REDLATCH_OK, redlatch_lock_acquire(lock, REDLATCH_WAIT_FOREVER));
    granted = now();
    EXPECT(REDLATCH_OK, redlatch_lock_release(lock));
    printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", started, started, granted, now());
    redlatch_lock_free(lock);
    redlatch_client_free(client);
}

int main(int argc, char **argv) {
    redlatch_client_options options;
    redlatch_client *client = NULL;
    redlatch_lock *uncontended, *nesting;
    char line[64];
    int count;
    if (argc == 3 && strcmp(argv[2], "first") == 0) {
        first_lock(argv[1]);
        return 0;
    }
    CHECK(argc == 2);
    EXPECT(REDLATCH_OK, redlatch_client_options_init(&options, sizeof options));
    /* On a busy machine a reply may take longer than by default, and a request that is sent twice would count twice. */
    options.connect_timeout_ms = 60000;
    options.io_timeout_ms = 60000;
    EXPECT(REDLATCH_OK, redlatch_client_open(TEXT(argv[1]), &options, &client));
    uncontended = new_lock(client, "bench:uncontended");
    nesting = new_lock_with(client, "bench:nested", 3600000, 0, 1);
    say("ready");
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "pair %d", &count) == 1)
            pairs(uncontended, count);
        else if (sscanf(line, "nested %d", &count) == 1)
            nested(nesting, count);
        else
            return 2;
    }
    redlatch_lock_free(uncontended);
    redlatch_lock_free(nesting);
    redlatch_client_free(client);
    return 0;
}
