// on_lost and the log: what they are told, their exceptions, and the end of what they own.
#include "support.hpp"

#include <atomic>
#include <memory>

namespace {

// Has a lease lost: somebody takes it away, and the renewal finds out.
template <class Lock>
void lose(const redlatch::client& client, Lock& lock, const std::string& name) {
    CHECK(client.force_release(name));
    THROWN(lost_error, lock.renew());
}

void told_once(const std::string& url) {
    const redlatch::client client(url);
    std::mutex mutex;
    std::string name, token;
    std::atomic<std::uint64_t> fence{0};
    std::atomic<int> calls{0};
    redlatch::lock_options options;
    options.on_lost = [&](const redlatch::lost_info& info) {
        const std::lock_guard guard(mutex);
        name = info.name, token = info.token, fence = info.fence;
        CHECK(info.reason == redlatch::lost_reason::taken);
        ++calls;
    };
    redlatch::mutex lock(client, std::string("told\0once", 9), options);
    lock.lock();
    const std::string held = lock.token();
    const std::uint64_t had = lock.fence();
    lose(client, lock, lock.name());
    eventually("the callback", [&] { return calls == 1; });
    THROWN(lost_error, static_cast<void>(lock.release()));
    lock.lock();
    lock.unlock();
    client.close();
    const std::lock_guard guard(mutex);
    CHECK(calls == 1 && name == lock.name() && token == held && fence == had);
}

void exceptions_are_logged(const std::string& url) {
    log_capture log;
    const redlatch::client client(url);
    std::atomic<int> calls{0};
    redlatch::lock_options options;
    options.on_lost = [&](const redlatch::lost_info&) {
        switch (++calls) {
            case 1: throw std::runtime_error("the callback's own fault");
            case 2: throw 17;
            default: throw std::runtime_error("\xff no UTF-8");
        }
    };
    redlatch::mutex lock(client, "throws", options);
    for (int n = 1; n <= 3; ++n) {
        lock.lock();
        lose(client, lock, "throws");
        eventually("the callback", [&] { return calls == n; });
        THROWN(lost_error, static_cast<void>(lock.release()));
    }
    eventually("the log", [&] {
        return log.has("4 redlatch::program: an on_lost callback threw: the callback's own fault\n") &&
               log.has("4 redlatch::program: an on_lost callback threw: something that is no std::exception\n") &&
               log.has("4 redlatch::program: an on_lost callback threw\n");
    });
    // The thread of the callbacks lives.
    redlatch::lock_options more;
    std::atomic<bool> called{false};
    more.on_lost = [&](const redlatch::lost_info&) { called = true; };
    redlatch::mutex next(client, "throws no more", more);
    next.lock();
    lose(client, next, "throws no more");
    eventually("the next callback", [&] { return called.load(); });
    next.unlock();
}

// Counts how many of it are alive.
struct owned {
    explicit owned(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
    owned(const owned& other) : alive_(other.alive_) { ++alive_; }
    ~owned() { --alive_; }
    owned& operator=(const owned&) = delete;
    std::atomic<int>& alive_;
};

void destroyed_once(const std::string& url) {
    std::atomic<int> alive{0};
    std::atomic<int> calls{0};
    const auto options = [&] {
        redlatch::lock_options made;
        made.on_lost = [item = owned(alive), &calls](const redlatch::lost_info&) {
            CHECK(item.alive_ > 0);
            ++calls;
        };
        return made;
    };
    const redlatch::client client(url);
    {
        const redlatch::mutex unused(client, "unused", options());
        const redlatch::lease also_unused(client, "unused", options());
        CHECK(alive == 2);
    }
    eventually("unused ones are destroyed", [&] { return alive == 0; });

    // While a lease lives its callback does, whatever becomes of the mutex.
    redlatch::mutex again(client, "outlived");
    {
        redlatch::mutex lock(client, "outlived", options());
        lock.lock();
    }
    CHECK(alive == 1 && again.hold_count() == 1);
    lose(client, again, "outlived");
    eventually("the callback", [&] { return calls == 1; });
    THROWN(lost_error, static_cast<void>(again.release()));
    eventually("it is destroyed", [&] { return alive == 0; });

    // A constructor that throws keeps nothing.
    THROWN(config_error, redlatch::mutex(client, "", options()));
    CHECK(alive == 0);

    // Of a lease that is adopted, and moved.
    redlatch::lease giver(client, "adopted");
    giver.acquire();
    auto adopted = client.adopt("adopted", giver.into_token(), options());
    CHECK(adopted.has_value());
    redlatch::lease moved(std::move(*adopted));
    adopted.reset();
    CHECK(alive == 1);
    lose(client, moved, "adopted");
    eventually("the callback", [&] { return calls == 2; });
    {
        const redlatch::lease gone(std::move(moved));
    }
    eventually("it is destroyed", [&] { return alive == 0; });
    CHECK(!client.adopt("adopted", "9b2f9a4e-6f1c-4d0b-8a3e-111111111111@host:1", options()));
    eventually("that of an adoption that was none, too", [&] { return alive == 0; });
}

// A callback may use the library, close its client, and own the object that it belongs to.
void callbacks_may_call(const std::string& url) {
    const auto client = std::make_shared<redlatch::client>(url);
    std::atomic<bool> called{false};
    redlatch::lock_options options;
    options.on_lost = [&called, client](const redlatch::lost_info& info) {
        CHECK(!client->inspect(info.name));
        redlatch::mutex lock(*client, "from a callback");
        {
            const std::lock_guard guard(lock);
        }
        client->close();
        called = true;
    };
    auto lease = std::make_unique<redlatch::lease>(*client, "calls", options);
    options.on_lost = nullptr;
    lease->acquire();
    CHECK(client->force_release("calls"));
    THROWN(lost_error, lease->renew());
    eventually("the callback", [&] { return called.load(); });
    lease.reset();
    eventually("the client has no owner but this", [&] { return client.use_count() == 1; });
}

}  // namespace

void callbacks(const std::string& url) {
    told_once(url);
    exceptions_are_logged(url);
    destroyed_once(url);
    callbacks_may_call(url);
}

void logs(const std::string& url) {
    const redlatch::client client(url);
    redlatch::mutex lock(client, "logged");
    // Nobody listens: nothing happens.
    lock.unlock();
    {
        log_capture log;
        lock.unlock();
        CHECK(log.has("4 redlatch::program: unlock: ") && log.has("logged"));
        lock.lock();
        const std::string token = lock.token();
        lose(client, lock, "logged");
        {
            const std::unique_lock guard(lock, std::adopt_lock);
        }
        CHECK(log.has("taken") && lock.hold_count() == 0);
        CHECK(!log.has(token.substr(0, 36)));
    }
    // The function before is destroyed, the exceptions of this one are dropped, and too low levels do not come.
    const auto kept = std::make_shared<int>(0);
    redlatch::set_log([kept](auto, auto, auto) { throw std::runtime_error("a log that cannot log"); });
    CHECK(kept.use_count() == 2);
    lock.unlock();
    std::atomic<int> records{0};
    redlatch::set_log([&records](auto, auto, auto) { ++records; }, redlatch::log_level::error);
    CHECK(kept.use_count() == 1);
    CHECK(redlatch_log(REDLATCH_LOG_WARN, "not this one", REDLATCH_NUL_TERMINATED) == REDLATCH_OK && records == 0);
    CHECK(redlatch_log(REDLATCH_LOG_ERROR, "but this one", REDLATCH_NUL_TERMINATED) == REDLATCH_OK && records == 1);
    CHECK(redlatch_log(77, "no level", REDLATCH_NUL_TERMINATED) == REDLATCH_INVALID_ARGUMENT);
    CHECK(redlatch_log(REDLATCH_LOG_ERROR, nullptr, 0) == REDLATCH_INVALID_ARGUMENT);
    redlatch::set_log(nullptr);
    lock.unlock();
    CHECK(records == 1);
    THROWN(invalid_argument_error, redlatch::set_log([](auto, auto, auto) {}, static_cast<redlatch::log_level>(77)));
}
