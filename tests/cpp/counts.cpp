// Counts up the number in a file under a lock that other processes use too: counts URL NAME FILE ROUNDS
#include <redlatch.hpp>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    try {
        const redlatch::client client(argv[1]);
        redlatch::mutex lock(client, argv[2]);
        std::uint64_t last = 0;
        for (int round = std::atoi(argv[4]); round > 0; --round) {
            const std::lock_guard guard(lock);
            if (lock.fence() <= last) return 3;
            last = lock.fence();
            long count = 0;
            std::ifstream(argv[3]) >> count;
            lock.check();
            std::ofstream(argv[3]) << count + 1;
        }
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
    return 0;
}
