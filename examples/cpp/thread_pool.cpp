// A pool of threads that moves money between accounts. Each transfer locks both accounts, in this process and in every
// other one that runs this program: with std::scoped_lock, so that transfers in opposite directions do not deadlock.
//
//     thread_pool URL [TRANSFERS]
//
//     ./thread_pool redis://127.0.0.1:6379/0 200
//
// It ends with 0 when no money was lost or made.
#include <redlatch.hpp>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

namespace {

// The protected resource: a table whose rows refuse a fence lower than one they have seen. In a service it is a
// database, and seen_by and write are an UPDATE with the fence in its WHERE.
class ledger {
public:
    // A holder begins: lower fences are out from here on. False where a later holder was here before.
    bool seen_by(std::uint64_t fence, const std::string& account) {
        const std::lock_guard guard(mutex_);
        row& found = rows_[account];
        if (fence < found.fence) return false;
        found.fence = fence;
        return true;
    }

    int read(const std::string& account) {
        const std::lock_guard guard(mutex_);
        return rows_[account].balance;
    }

    bool write(std::uint64_t fence, const std::string& account, int balance) {
        const std::lock_guard guard(mutex_);
        row& found = rows_[account];
        if (fence != found.fence) return false;
        found.balance = balance;
        return true;
    }

private:
    struct row {
        int balance = 1000;
        std::uint64_t fence = 0;
    };
    std::mutex mutex_;
    std::map<std::string, row> rows_;
};

struct transfer {
    std::string from, to;
    int amount;
};

// One client for the whole process; a mutex object costs little, and two of one name are the same lock.
bool pay(const redlatch::client& client, ledger& accounts, const transfer& job) {
    redlatch::lock_options options;
    options.ttl = std::chrono::seconds(10);
    redlatch::mutex from(client, "account:" + job.from, options);
    redlatch::mutex to(client, "account:" + job.to, options);

    // Throws where the server does not answer; unlocks both on every way out, and logs what fails then.
    const std::scoped_lock guard(from, to);

    // First of all the accounts note the fences.
    if (!accounts.seen_by(from.fence(), job.from) || !accounts.seen_by(to.fence(), job.to)) return false;
    const int source = accounts.read(job.from);
    const int target = accounts.read(job.to);

    // Right before the step that must not happen twice: throws lost_error where a lease is over.
    from.check();
    to.check();
    return accounts.write(from.fence(), job.from, source - job.amount) &&
           accounts.write(to.fence(), job.to, target + job.amount);
}

// Threads that take work from a queue until it is empty. Holds belong to threads, so a lock is released by the thread
// that acquired it; work that moves between threads takes a redlatch::lease.
class pool {
public:
    explicit pool(std::queue<transfer> work) : work_(std::move(work)) {}

    template <class Do>
    void run(unsigned threads, const Do& execute) {
        std::vector<std::thread> running;
        for (unsigned n = 0; n < threads; ++n) {
            running.emplace_back([&] {
                transfer job;
                while (take(job)) execute(job);
            });
        }
        for (auto& thread : running) thread.join();
    }

private:
    bool take(transfer& job) {
        const std::lock_guard guard(mutex_);
        if (work_.empty()) return false;
        job = std::move(work_.front());
        work_.pop();
        return true;
    }

    std::mutex mutex_;
    std::queue<transfer> work_;
};

int transfers(const std::string& url, int count) {
    const std::array<std::string, 4> names{"anna", "bela", "carl", "dora"};
    std::queue<transfer> work;
    for (int n = 0; n < count; ++n) {
        const auto at = static_cast<std::size_t>(n);
        work.push({names[at % 4], names[(at / 4 + 1 + at) % 4], n % 7 + 1});
    }

    const redlatch::client client(url);
    ledger accounts;
    std::mutex failures_mutex;
    int failures = 0;
    pool(std::move(work)).run(4, [&](const transfer& job) {
        bool done = false;
        try {
            done = job.from == job.to || pay(client, accounts, job);
        } catch (const redlatch::lost_error& error) {
            std::cerr << "stopped, the work may have overlapped with another holder's: " << error.what() << '\n';
        } catch (const redlatch::error& error) {
            std::cerr << (error.is_retryable() ? "later, perhaps: " : "no use: ") << error.what() << '\n';
        }
        if (!done) {
            const std::lock_guard guard(failures_mutex);
            ++failures;
        }
    });

    int sum = 0;
    for (const auto& name : names) {
        std::cout << name << ' ' << accounts.read(name) << '\n';
        sum += accounts.read(name);
    }
    std::cout << count - failures << " of " << count << " transfers, " << sum << " in all\n";
    return sum == 4000 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::cerr << "usage: " << argv[0] << " URL [TRANSFERS]\n";
        return 2;
    }
    // What unlock() cannot report is told here.
    redlatch::set_log([](redlatch::log_level, std::string_view target, std::string_view message) {
        std::cerr << target << ": " << message << '\n';
    });
    try {
        return transfers(argv[1], argc > 2 ? std::atoi(argv[2]) : 100);
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
