/* What the players of the benchmark in C and C++ share: instants, and the line that tells times in nanoseconds. */
#ifndef BENCH_TIMES_H
#define BENCH_TIMES_H

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

/* As many times fit into one line. */
enum { MOST_TIMES = 10000 };

static inline int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static inline void say_times(const int64_t *times, int count) {
    int at;
    fputs("took", stdout);
    for (at = 0; at < count; at++)
        printf(" %" PRId64, times[at]);
    puts("");
    fflush(stdout);
}

#endif
