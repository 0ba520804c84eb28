// mutex and client: every member, and the guards of the standard library.
#include "support.hpp"

#include <atomic>
#include <vector>

namespace {

void one_hold(const std::string& url) {
    const redlatch::client client(url);
    redlatch::mutex lock(client, "one hold");
    CHECK(lock.name() == "one hold" && lock.native_handle() != nullptr && client.native_handle() != nullptr);

    CHECK(!lock.is_held() && lock.hold_count() == 0 && lock.remaining() == 0ms && !lock.lost());
    THROWN(not_held_error, lock.check());
    THROWN(not_held_error, static_cast<void>(lock.fence()));
    THROWN(not_held_error, static_cast<void>(lock.token()));
    THROWN(not_held_error, lock.renew());
    THROWN(not_held_error, static_cast<void>(lock.release()));

    lock.lock();
    lock.check();
    CHECK(lock.is_held() && lock.hold_count() == 1 && !lock.lost());
    CHECK(lock.remaining() > 20s && lock.remaining() <= 30s);
    CHECK(lock.token().find('@') == 36);
    const std::uint64_t fence = lock.fence();
    CHECK(fence > 0);

    // Another thread, and another client, find it busy and hold nothing.
    elsewhere([&] {
        CHECK(!lock.try_lock() && !lock.is_held() && lock.hold_count() == 0);
        THROWN(not_held_error, static_cast<void>(lock.release()));
    });
    const redlatch::client stranger(url);
    redlatch::mutex same(stranger, "one hold");
    CHECK(!same.try_lock() && !same.try_lock_for(20ms));
    THROWN(not_held_error, same.check());

    // Re-entry, also through another object of the same client.
    redlatch::mutex twin(client, "one hold");
    CHECK(lock.try_lock() && twin.try_lock_for(1ms));
    CHECK(lock.hold_count() == 3 && twin.fence() == fence && twin.token() == lock.token());
    CHECK(twin.release() == redlatch::released::still_held);
    lock.unlock();
    CHECK(lock.hold_count() == 1);
    CHECK(lock.release() == redlatch::released::released);
    CHECK(!is_locked(url, "one hold"));

    CHECK(same.try_lock() && same.fence() > fence);
    CHECK(same.release() == redlatch::released::released);
}

void renewal_by_call(const std::string& url) {
    const redlatch::client client(url);
    redlatch::lock_options options;
    options.ttl = 5s;
    options.auto_renew = false;
    redlatch::mutex lock(client, "renewal", options);
    lock.lock();
    eventually("time passes", [&] { return lock.remaining() < 4800ms; });
    const auto before = lock.remaining();
    lock.renew();
    CHECK(lock.remaining() > before && lock.remaining() <= 5s);
    lock.unlock();
}

void odd_names(const std::string& url) {
    const std::vector<std::string> names{{"a\0b", 3}, "a", "锁 🔒 \"\n{x}", std::string(1024, 'n')};
    const redlatch::client client(url);
    for (const std::string& name : names) {
        redlatch::mutex lock(client, name);
        CHECK(lock.try_lock());
        CHECK(client.inspect(name).has_value());
    }
    // A NUL does not end a name: all four were different locks, held at once by this thread.
    const redlatch::client stranger(url);
    CHECK(!redlatch::mutex(stranger, std::string_view("a\0b", 3)).try_lock());
    CHECK(!redlatch::mutex(stranger, "a").try_lock());
    for (const std::string& name : names)
        CHECK(redlatch::mutex(client, name).release() == redlatch::released::released);
}

}  // namespace

void mutexes(const std::string& url) {
    one_hold(url);
    renewal_by_call(url);
    odd_names(url);
}

void guards(const std::string& url) {
    const redlatch::client client(url);
    redlatch::mutex a(client, "guard a"), b(client, "guard b"), c(client, "guard c");
    {
        const std::lock_guard guard(a);
        CHECK(a.is_held());
    }
    CHECK(!a.is_held());
    {
        std::unique_lock guard(a, 1s);
        CHECK(guard.owns_lock() && a.is_held());
        CHECK(release(guard) == redlatch::released::released);
        CHECK(!guard.owns_lock() && guard.mutex() == nullptr && !a.is_held());
        THROWN(not_held_error, static_cast<void>(release(guard)));
    }
    {
        std::unique_lock guard(a, std::defer_lock);
        CHECK(!guard.owns_lock() && guard.try_lock() && guard.owns_lock());
        guard.unlock();
        CHECK(guard.try_lock_until(std::chrono::steady_clock::now() + 1s));
        guard.unlock();
        CHECK(guard.try_lock_until(std::chrono::system_clock::now() + 1s));
        guard.unlock();
        guard.lock();
        std::unique_lock moved(std::move(guard));
        CHECK(moved.owns_lock());
        elsewhere([&] { CHECK(!std::unique_lock(a, std::try_to_lock).owns_lock()); });
    }
    CHECK(!a.is_held());
    {
        const std::scoped_lock guard(a, b, c);
        CHECK(a.is_held() && b.is_held() && c.is_held());
    }
    {
        std::lock(a, b);
        const std::lock_guard one(a, std::adopt_lock);
        const std::lock_guard two(b, std::adopt_lock);
        CHECK(a.hold_count() == 1 && b.hold_count() == 1);
    }
    CHECK(std::try_lock(a, b, c) == -1);
    a.unlock(), b.unlock(), c.unlock();

    // The body's exception gets through, and the lock is released.
    try {
        const std::scoped_lock guard(a, b);
        throw std::runtime_error("body");
    } catch (const std::runtime_error& error) {
        CHECK(error.what() == std::string("body"));
    }
    CHECK(!is_locked(url, "guard a") && !is_locked(url, "guard b"));

    // Opposite orders do not deadlock.
    long both = 0;
    std::thread forward([&] {
        for (int n = 0; n < 20; ++n) {
            const std::scoped_lock guard(a, b);
            ++both;
        }
    });
    std::thread backward([&] {
        for (int n = 0; n < 20; ++n) {
            const std::scoped_lock guard(b, a);
            ++both;
        }
    });
    forward.join();
    backward.join();
    CHECK(both == 40);
}

void counter(const std::string& url) {
    const redlatch::client client(url);
    redlatch::mutex lock(client, "counter");
    // No atomic: only the lock keeps the threads apart.
    long count = 0;
    std::vector<std::thread> threads;
    for (int n = 0; n < 50; ++n) {
        threads.emplace_back([&] {
            for (int round = 0; round < 10; ++round) {
                const std::lock_guard guard(lock);
                const long read = count;
                std::this_thread::yield();
                count = read + 1;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(count == 500);
    CHECK(!is_locked(url, "counter"));
}

void operators(const std::string& url) {
    redlatch::client_options options;
    options.label = "billing";
    const redlatch::client client(url, options);
    redlatch::mutex lock(client, "operated");
    CHECK(!client.inspect("operated") && !client.force_release("operated"));

    lock.lock();
    const auto found = client.inspect("operated");
    CHECK(found && found->find(lock.token()) != std::string::npos && found->find(":billing\"") != std::string::npos);
    CHECK(client.stats_json().find("\"acquired\"") != std::string::npos);

    const std::uint64_t fence = lock.fence();
    CHECK(client.force_release("operated"));
    const auto renewal = THROWN(lost_error, lock.renew());
    CHECK(renewal.reason() == redlatch::lost_reason::taken && renewal.fence() == fence);
    CHECK(lock.lost() == redlatch::lost_reason::taken && !lock.is_held() && lock.hold_count() == 1);
    CHECK(lock.remaining() == 0ms && lock.fence() == fence);
    CHECK(THROWN(lost_error, lock.check()).fence() == fence);
    CHECK(THROWN(lost_error, lock.lock()).fence() == fence);
    CHECK(THROWN(lost_error, static_cast<void>(lock.try_lock())).fence() == fence);

    // The hold is gone when release() has thrown, and what was lost is told then too.
    const auto release = THROWN(lost_error, static_cast<void>(lock.release()));
    CHECK(release.reason() == redlatch::lost_reason::taken && release.fence() == fence);
    CHECK(lock.hold_count() == 0 && !lock.lost());
    lock.lock();
    CHECK(lock.fence() > fence);
    lock.unlock();
    client.close();
    client.close();
}
