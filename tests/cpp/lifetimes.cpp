// Moves, and ends in any order.
#include "support.hpp"

#include <memory>
#include <type_traits>
#include <vector>

namespace {

template <class T>
constexpr bool copies = std::is_copy_constructible_v<T> || std::is_copy_assignable_v<T>;
template <class T>
constexpr bool moves = std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>;

static_assert(!copies<redlatch::client> && moves<redlatch::client>);
static_assert(!copies<redlatch::lease> && moves<redlatch::lease>);
static_assert(!copies<redlatch::mutex> && !std::is_move_constructible_v<redlatch::mutex>);
static_assert(copies<redlatch::cancel_token> && moves<redlatch::cancel_token>);
static_assert(std::is_nothrow_destructible_v<redlatch::client> && std::is_nothrow_destructible_v<redlatch::mutex>);
static_assert(std::is_nothrow_destructible_v<redlatch::lease>);
static_assert(std::is_nothrow_destructible_v<redlatch::cancel_token>);
static_assert(noexcept(std::declval<redlatch::mutex&>().unlock()));
static_assert(!std::is_convertible_v<const char*, redlatch::client>);

void moved_from(const std::string& url) {
    redlatch::client client(url);
    const redlatch::client target(std::move(client));
    // NOLINTBEGIN(bugprone-use-after-move)
    CHECK(client.native_handle() == nullptr);
    THROWN(invalid_argument_error, client.close());
    THROWN(invalid_argument_error, static_cast<void>(client.stats_json()));
    THROWN(invalid_argument_error, static_cast<void>(client.check_server()));
    THROWN(invalid_argument_error, static_cast<void>(client.inspect("x")));
    THROWN(invalid_argument_error, static_cast<void>(client.force_release("x")));
    THROWN(invalid_argument_error, static_cast<void>(client.adopt("x", "token")));
    THROWN(invalid_argument_error, redlatch::mutex(client, "x"));
    THROWN(invalid_argument_error, redlatch::lease(client, "x"));
    client = redlatch::client(url);
    CHECK(!client.inspect("x"));

    redlatch::lease lease(target, "moved");
    lease.acquire();
    const std::string token = lease.token();
    redlatch::lease held(std::move(lease));
    CHECK(held.is_held() && held.token() == token && lease.native_handle() == nullptr);
    THROWN(invalid_argument_error, lease.acquire());
    THROWN(invalid_argument_error, static_cast<void>(lease.try_acquire()));
    THROWN(invalid_argument_error, static_cast<void>(lease.release()));
    THROWN(invalid_argument_error, static_cast<void>(lease.is_held()));
    THROWN(invalid_argument_error, static_cast<void>(lease.into_token()));
    THROWN(invalid_argument_error, static_cast<void>(lease.lost()));
    // What is assigned over is released.
    redlatch::lease another(target, "assigned over");
    another.acquire();
    another = std::move(held);
    CHECK(another.token() == token);
    eventually("the lease before is released", [&] { return !target.inspect("assigned over"); });
    CHECK(another.release() == redlatch::released::released);

    redlatch::cancel_token cancel;
    const redlatch::cancel_token kept(std::move(cancel));
    redlatch::mutex lock(target, "moved");
    THROWN(invalid_argument_error, cancel.fire());
    THROWN(invalid_argument_error, lock.lock(cancel));
    // NOLINTEND(bugprone-use-after-move)
    cancel = kept;
    cancel.fire();
    THROWN(cancelled_error, lock.lock(kept));
}

void locks_outlive_their_client(const std::string& url) {
    auto client = std::make_unique<redlatch::client>(url);
    redlatch::mutex lock(*client, "outlives");
    auto lease = std::make_unique<redlatch::lease>(*client, "outlives too");
    lock.lock();
    lease->acquire();
    client.reset();
    lock.check();
    lease->check();
    CHECK(lock.try_lock() && lock.hold_count() == 2);
    lock.unlock();
    CHECK(lock.release() == redlatch::released::released && lease->release() == redlatch::released::released);
    lease.reset();
    lock.lock();
    lock.unlock();
    redlatch::mutex from_temporary(redlatch::client(url), "temporary");
    CHECK(from_temporary.try_lock() && from_temporary.release() == redlatch::released::released);
}

void destroying_a_mutex_releases_nothing(const std::string& url) {
    const redlatch::client client(url);
    {
        redlatch::mutex lock(client, "kept");
        lock.lock();
    }
    CHECK(is_locked(url, "kept"));
    redlatch::mutex again(client, "kept");
    CHECK(again.is_held() && again.release() == redlatch::released::released);
}

void destroying_a_lease_releases_it(const std::string& url) {
    log_capture log;
    const redlatch::client client(url);
    {
        redlatch::lease lease(client, "dropped");
        lease.acquire();
    }
    eventually("it is released", [&] { return !client.inspect("dropped"); });
    eventually("it is logged", [&] { return log.has("dropped"); });
    try {
        redlatch::lease lease(client, "dropped");
        lease.acquire();
        throw std::runtime_error("body");
    } catch (const std::runtime_error&) {
    }
    eventually("it is released", [&] { return !client.inspect("dropped"); });
}

void a_thread_that_ends_lets_go(const std::string& url) {
    log_capture log;
    const redlatch::client client(url);
    redlatch::mutex lock(client, "left behind");
    elsewhere([&] { lock.lock(); });
    eventually("it is released", [&] { return !client.inspect("left behind"); });
    eventually("it is logged", [&] { return log.has("left behind"); });
}

void any_order(const std::string& url) {
    // Client, mutex, lease and token end in each of the 24 orders, while both locks are held.
    std::vector<int> order{0, 1, 2, 3};
    do {
        auto client = std::make_unique<redlatch::client>(url);
        auto lock = std::make_unique<redlatch::mutex>(*client, "any order");
        auto lease = std::make_unique<redlatch::lease>(*client, "any order too");
        auto cancel = std::make_unique<redlatch::cancel_token>();
        lock->lock(*cancel);
        lease->acquire(*cancel);
        for (const int next : order) {
            if (next == 0) client.reset();
            if (next == 1) lock.reset();
            if (next == 2) lease.reset();
            if (next == 3) cancel.reset();
        }
        const redlatch::client cleaner(url);
        cleaner.force_release("any order");
        cleaner.force_release("any order too");
    } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace

void lifetimes(const std::string& url) {
    moved_from(url);
    locks_outlive_their_client(url);
    destroying_a_mutex_releases_nothing(url);
    destroying_a_lease_releases_it(url);
    a_thread_that_ends_lets_go(url);
    any_order(url);
}
