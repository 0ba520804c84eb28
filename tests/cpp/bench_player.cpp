// A C++ process that the benchmark steers by lines on standard input: bench_player URL
//
// pair COUNT    answers "took" and the time of each uncontended pair of lock and unlock, in nanoseconds
#include <redlatch.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <mutex>
#include <string>
#include <vector>

#include "../c/bench_times.h"

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    // On a busy machine a reply may take longer than by default, and a request that is sent twice would count twice.
    redlatch::client_options options;
    options.connect_timeout = std::chrono::seconds(60);
    options.io_timeout = std::chrono::seconds(60);
    const redlatch::client client(argv[1], options);
    redlatch::mutex mutex(client, "bench:uncontended");
    std::cout << "ready" << std::endl;
    std::string command;
    for (int count = 0; std::cin >> command >> count;) {
        if (command != "pair" || count < 0) return 2;
        std::vector<std::int64_t> took;
        took.reserve(static_cast<std::size_t>(count));
        for (int at = 0; at < count; at++) {
            const std::int64_t begin = now();
            { const std::unique_lock guard(mutex); }
            took.push_back(now() - begin);
        }
        say_times(took.data(), count);
    }
    return 0;
}
