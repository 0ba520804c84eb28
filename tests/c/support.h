/* What the scenarios share: checks that end the program, threads, and lines to and from the test. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlatch.h"

/* Ends the program with a message unless `call` returns `status`. */
#define EXPECT(status, call) expect((status), (call), #call, __FILE__, __LINE__)
#define CHECK(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

/* A literal or other text that ends with a NUL. */
#define TEXT(text) (text), REDLATCH_NUL_TERMINATED

void expect(int32_t wanted, int32_t found, const char *call, const char *file, int line);
void check_failed(const char *condition, const char *file, int line);

/* Whether the last error of this thread contains `part`. */
bool error_says(const char *part);

redlatch_client *open_client(const char *url);
/* With an io_timeout and connect_timeout of 300 ms. */
redlatch_client *open_quick_client(const char *url);
redlatch_lock *new_lock(redlatch_client *client, const char *name);
redlatch_lock *new_lock_with(redlatch_client *client, const char *name, int64_t ttl_ms, int64_t max_hold_ms, int auto_renew);
redlatch_lease *new_lease(redlatch_client *client, const char *name);
redlatch_lock_options lock_options(int64_t ttl_ms, int64_t max_hold_ms, int auto_renew);

/* What any thread of this process finds for `name`, by another client: REDLATCH_OK or REDLATCH_NOT_FOUND. */
int32_t look_up(const char *url, const char *name);

/* Runs `work` on a thread of its own and waits for its end. */
void on_thread(void *(*work)(void *), void *data);
pthread_t start_thread(void *(*work)(void *), void *data);
void join_thread(pthread_t thread);

void pause_ms(long ms);
/* Polls `holds` every 5 ms; ends the program when it still does not hold after 10 s. */
void eventually(bool (*holds)(void *), void *data, const char *what);

/* Writes one line at once. */
void say(const char *line);
/* Waits for a line from the test. */
void wait_for_line(void);

/* Counts up and reads, from any thread. */
struct counter {
    pthread_mutex_t mutex;
    long value;
};
#define COUNTER_INIT {PTHREAD_MUTEX_INITIALIZER, 0}
void count_up(struct counter *counter);
long count_of(struct counter *counter);
/* Waits until it is `value`. */
void await_count(struct counter *counter, long value, const char *what);

/* The scenarios; url and further arguments as the test gives them. */
void scenario_arguments(char **args);
void scenario_options(char **args);
void scenario_lock(char **args);
void scenario_threads(char **args);
void scenario_names(char **args);
void scenario_order(char **args);
void scenario_operator(char **args);
void scenario_stats(char **args);
void scenario_lease(char **args);
void scenario_give(char **args);
void scenario_take(char **args);
void scenario_callbacks(char **args);
void scenario_destroy(char **args);
void scenario_cancel(char **args);
void scenario_log(char **args);
void scenario_fork(char **args);
void scenario_forks(char **args);
void scenario_losses(char **args);
void scenario_refused(char **args);
void scenario_outage(char **args);
void scenario_cut_off(char **args);
void scenario_counter(char **args);
void scenario_check(char **args);
void scenario_unchecked(char **args);
void scenario_reopen(char **args);

#endif
