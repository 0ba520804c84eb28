#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <time.h>

void check_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
    exit(1);
}

void expect(int32_t wanted, int32_t found, const char *call, const char *file, int line) {
    char message[512] = "";
    if (wanted == found)
        return;
    (void)redlatch_last_error_message(message, sizeof message, NULL);
    fprintf(stderr, "%s:%d: %s\n  gave %s, not %s; last error: %s\n", file, line, call, redlatch_status_name(found),
            redlatch_status_name(wanted), message);
    exit(1);
}

bool error_says(const char *part) {
    char message[1024];
    EXPECT(REDLATCH_OK, redlatch_last_error_message(message, sizeof message, NULL));
    if (strstr(message, part) != NULL)
        return true;
    fprintf(stderr, "the last error does not say %s: %s\n", part, message);
    return false;
}

redlatch_client *open_client(const char *url) {
    redlatch_client *client = NULL;
    EXPECT(REDLATCH_OK, redlatch_client_open(TEXT(url), NULL, &client));
    CHECK(client != NULL);
    return client;
}

redlatch_client *open_quick_client(const char *url) {
    redlatch_client *client = NULL;
    redlatch_client_options options;
    EXPECT(REDLATCH_OK, redlatch_client_options_init(&options, sizeof options));
    options.io_timeout_ms = 300;
    options.connect_timeout_ms = 300;
    EXPECT(REDLATCH_OK, redlatch_client_open(TEXT(url), &options, &client));
    return client;
}

redlatch_lock_options lock_options(int64_t ttl_ms, int64_t max_hold_ms, int auto_renew) {
    redlatch_lock_options options;
    EXPECT(REDLATCH_OK, redlatch_lock_options_init(&options, sizeof options));
    options.ttl_ms = ttl_ms;
    options.max_hold_ms = max_hold_ms;
    options.auto_renew = auto_renew;
    return options;
}

redlatch_lock *new_lock(redlatch_client *client, const char *name) {
    redlatch_lock *lock = NULL;
    EXPECT(REDLATCH_OK, redlatch_lock_new(client, TEXT(name), NULL, &lock));
    CHECK(lock != NULL);
    return lock;
}

redlatch_lock *new_lock_with(redlatch_client *client, const char *name, int64_t ttl_ms, int64_t max_hold_ms,
                             int auto_renew) {
    redlatch_lock *lock = NULL;
    redlatch_lock_options options = lock_options(ttl_ms, max_hold_ms, auto_renew);
    EXPECT(REDLATCH_OK, redlatch_lock_new(client, TEXT(name), &options, &lock));
    return lock;
}

redlatch_lease *new_lease(redlatch_client *client, const char *name) {
    redlatch_lease *lease = NULL;
    EXPECT(REDLATCH_OK, redlatch_lease_new(client, TEXT(name), NULL, &lease));
    CHECK(lease != NULL);
    return lease;
}

int32_t look_up(const char *url, const char *name) {
    redlatch_client *client = open_client(url);
    char *json = NULL;
    int32_t status = redlatch_inspect(client, TEXT(name), &json);
    CHECK((status == REDLATCH_OK) == (json != NULL));
    redlatch_string_free(json);
    redlatch_client_free(client);
    return status;
}

pthread_t start_thread(void *(*work)(void *), void *data) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, data) == 0);
    return thread;
}

void join_thread(pthread_t thread) {
    CHECK(pthread_join(thread, NULL) == 0);
}

void on_thread(void *(*work)(void *), void *data) {
    join_thread(start_thread(work, data));
}

void pause_ms(long ms) {
    struct timespec time;
    time.tv_sec = ms / 1000;
    time.tv_nsec = ms % 1000 * 1000000;
    nanosleep(&time, NULL);
}

void eventually(bool (*holds)(void *), void *data, const char *what) {
    int left;
    for (left = 2000; left > 0; left--) {
        if (holds(data))
            return;
        pause_ms(5);
    }
    fprintf(stderr, "not within 10 s: %s\n", what);
    exit(1);
}

void say(const char *line) {
    puts(line);
    fflush(stdout);
}

void wait_for_line(void) {
    char line[128];
    CHECK(fgets(line, sizeof line, stdin) != NULL);
}

void count_up(struct counter *counter) {
    pthread_mutex_lock(&counter->mutex);
    counter->value++;
    pthread_mutex_unlock(&counter->mutex);
}

long count_of(struct counter *counter) {
    long value;
    pthread_mutex_lock(&counter->mutex);
    value = counter->value;
    pthread_mutex_unlock(&counter->mutex);
    return value;
}

void await_count(struct counter *counter, long value, const char *what) {
    int left;
    for (left = 2000; left > 0 && count_of(counter) != value; left--)
        pause_ms(5);
    if (count_of(counter) != value) {
        fprintf(stderr, "%s: %ld, not %ld\n", what, count_of(counter), value);
        exit(1);
    }
}
