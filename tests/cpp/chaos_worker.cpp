// A worker of the chaos run: tests/src/bin/chaos/worker.rs says what it is told and what it does, and its lines are those of
// tests/src/history/journal.rs.
#include <redlatch.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr milliseconds look(20);

std::int64_t now() {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::int64_t deadline_of(std::int64_t at, milliseconds remaining) { return at + remaining.count() * 1'000'000; }

class store {
public:
    explicit store(const char* path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
        if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            throw std::runtime_error("the store does not serve");
        }
    }

    // The version of an accepted request.
    std::optional<std::uint64_t> ask(const std::string& line) {
        const std::string request = line + '\n';
        if (write(socket_, request.data(), request.size()) < 0) throw std::runtime_error("the store does not serve");
        std::string answer;
        for (char next = 0; next != '\n';) {
            if (read(socket_, &next, 1) != 1) throw std::runtime_error("the store does not serve");
            answer += next;
        }
        if (answer.compare(0, 3, "ok ") == 0) return std::stoull(answer.substr(3));
        return std::nullopt;
    }

private:
    int socket_;
};

// One thread of a worker.
class hand {
public:
    hand(int number, int journal, const char* path, std::uint64_t seed, milliseconds wait,
         const std::vector<std::unique_ptr<redlatch::mutex>>& locks)
        : number_(number), journal_(journal), store_(path), dice_(seed), wait_(wait), locks_(locks) {}

    void work(const std::atomic<bool>& stopping) {
        while (!stopping) turn();
        note("done", now(), 0);
    }

private:
    std::uint64_t below(std::uint64_t limit) { return dice_() % limit; }

    void sleep(microseconds span) { std::this_thread::sleep_for(span); }

    // One line by one system call: it is whole or it is not there.
    void note(const char* verb, std::int64_t at, std::size_t key, const std::string& rest = "-") const {
        std::string line = std::to_string(number_) + ' ' + verb + ' ' + std::to_string(at) + ' ' + std::to_string(key) +
                           ' ' + rest;
        std::replace(line.begin(), line.end(), '\n', ' ');
        line += '\n';
        if (write(journal_, line.data(), line.size()) < 0) throw std::runtime_error("the journal is not writable");
    }

    void turn() {
        sleep(microseconds(below(20'000)));
        const std::size_t key = choose();
        redlatch::mutex& lock = *locks_[key];
        note("waits", now(), key);
        try {
            if (!lock.try_lock_for(wait_)) return note("busy", now(), key);
        } catch (const redlatch::unavailable_error& error) {
            return note("failed", now(), key, std::string("unavailable ") + error.what());
        } catch (const redlatch::error& error) {
            return note("failed", now(), key, std::string("other ") + error.what());
        }
        keep(key, lock);
    }

    // The first fifth of the locks is crowded, the last one quiet.
    std::size_t choose() {
        const std::uint64_t kind = below(100);
        if (kind < 4) return locks_.size() - 1 - below(fifth());
        return below(kind < 24 ? fifth() : locks_.size() - fifth());
    }

    std::size_t fifth() const { return (locks_.size() + 4) / 5; }

    // Every time that is written down is read before the lock is asked, so that the answer holds for it.
    void keep(std::size_t key, redlatch::mutex& lock) {
        std::int64_t at = now();
        std::int64_t deadline = deadline_of(at, lock.remaining());
        if (lock.is_held()) {
            note("granted", at, key, std::to_string(deadline) + ' ' + std::to_string(lock.fence()));
            use(key, lock, deadline);
            at = now();
            const std::optional<redlatch::lost_reason> lost = lock.lost();
            if (lost == redlatch::lost_reason::expired) at = std::min(at, deadline);
            note("ends", at, key, lost ? std::string(redlatch::to_string(*lost)) : "-");
        } else {
            note("stale", at, key);
        }
        note_release(key, lock);
    }

    void note_release(std::size_t key, redlatch::mutex& lock) {
        std::string outcome;
        try {
            outcome = lock.release() == redlatch::released::released ? "released" : "unconfirmed";
        } catch (const redlatch::lost_error& error) {
            outcome = redlatch::to_string(error.reason());
        } catch (const redlatch::error& error) {
            outcome = std::string("error ") + error.what();
        }
        note("released", now(), key, outcome);
    }

    // Reads the row and writes it some time later; a reckless one does not ask in between whether it still may.
    void use(std::size_t key, redlatch::mutex& lock, std::int64_t& deadline) {
        const std::string row = ' ' + std::to_string(key) + ' ' + std::to_string(lock.fence());
        const std::optional<std::uint64_t> version = store_.ask("begin" + row);
        if (!version) return refused(key, lock);
        hold(key, lock, deadline);
        const bool reckless = below(2) == 0;
        if (!reckless && !lock.is_held()) return;
        if (!store_.ask("write" + row + ' ' + std::to_string(*version))) refused(key, lock);
    }

    // Mostly short; now and then longer than the ttl, so that the lease is renewed.
    void hold(std::size_t key, const redlatch::mutex& lock, std::int64_t& deadline) {
        const std::uint64_t kind = below(100);
        const bool quiet = key >= locks_.size() - fifth();
        microseconds left(quiet       ? 300'000 + below(600'000)
                          : kind < 85   ? 200 + below(7'800)
                          : kind < 98 ? 20'000 + below(100'000)
                                      : 1'300'000 + below(600'000));
        while (left > microseconds(0) && lock.is_held()) {
            sleep(std::min<microseconds>(left, look));
            left -= look;
            const std::int64_t at = now();
            const std::int64_t later = deadline_of(at, lock.remaining());
            if (later > deadline_of(deadline, look) && lock.is_held()) {
                deadline = later;
                note("holds", at, key, std::to_string(deadline));
            }
        }
    }

    void refused(std::size_t key, const redlatch::mutex& lock) const {
        const std::int64_t at = now();
        if (lock.is_held()) note("refused", at, key);
    }

    int number_;
    int journal_;
    store store_;
    std::mt19937_64 dice_;
    milliseconds wait_;
    const std::vector<std::unique_ptr<redlatch::mutex>>& locks_;
};

int work(char** words) {
    const int journal = open(words[2], O_WRONLY | O_APPEND | O_CREAT | O_EXCL, 0644);
    if (journal < 0) throw std::runtime_error("the journal is not new");
    const std::uint64_t seed = std::strtoull(words[4], nullptr, 10);
    const int threads = std::atoi(words[5]);
    redlatch::client_options options;
    options.connect_timeout = options.io_timeout = milliseconds(std::atoi(words[8]));
    const redlatch::client client(words[1], options);
    redlatch::lock_options lease;
    lease.ttl = milliseconds(std::atoi(words[7]));
    std::vector<std::unique_ptr<redlatch::mutex>> locks;
    for (int key = 0; key < std::atoi(words[6]); ++key) {
        locks.push_back(std::make_unique<redlatch::mutex>(client, "chaos:" + std::to_string(key), lease));
    }
    std::atomic<bool> stopping(false);
    std::vector<std::thread> running;
    for (int number = 0; number < threads; ++number) {
        running.emplace_back([&, number] {
            const std::uint64_t own = seed + static_cast<std::uint64_t>(number);
            hand(number, journal, words[3], own, milliseconds(std::atoi(words[9])), locks).work(stopping);
        });
    }
    // Until the end of the input.
    while (std::cin.get() != std::char_traits<char>::eof()) {}
    stopping = true;
    for (std::thread& thread : running) thread.join();
    client.close();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 10) return 2;
    try {
        return work(argv);
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
