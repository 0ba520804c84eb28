// Durations, instants and clocks; calling off waits.
#include "support.hpp"

#include <atomic>
#include <limits>
#include <ratio>

namespace {

using redlatch::detail::wait_ms;
constexpr std::int64_t longest = std::numeric_limits<std::int64_t>::max();

// Never shorter than asked for, and never a wrapped number.
static_assert(wait_ms(0ns) == 0 && wait_ms(-1ns) == 0 && wait_ms(std::chrono::hours::min()) == 0);
static_assert(wait_ms(1ns) == 1 && wait_ms(1ms) == 1 && wait_ms(1ms + 1ns) == 2 && wait_ms(1001us) == 2);
static_assert(wait_ms(2s) == 2000 && wait_ms(24h) == 86'400'000);
static_assert(wait_ms(std::chrono::milliseconds::max()) == longest);
static_assert(wait_ms(std::chrono::seconds::max()) == longest && wait_ms(std::chrono::hours::max()) == longest);
static_assert(wait_ms(std::chrono::nanoseconds::max()) == 9'223'372'036'855);
static_assert(wait_ms(std::chrono::duration<double>(0.0015)) == 2 && wait_ms(std::chrono::duration<float>(-1.0F)) == 0);
static_assert(wait_ms(std::chrono::duration<double>(std::numeric_limits<double>::infinity())) == longest);
static_assert(wait_ms(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())) == 0);
static_assert(wait_ms(std::chrono::duration<unsigned, std::milli>(7)) == 7);
static_assert(wait_ms(std::chrono::duration<std::uint64_t>(~std::uint64_t{0})) == longest);
static_assert(wait_ms(std::chrono::duration<int, std::ratio<1, 3>>(1)) == 334);
static_assert(wait_ms(std::chrono::duration<signed char, std::ratio<60>>(2)) == 120'000);

// A clock that somebody sets back by 200 ms after the first look at it.
struct set_back_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<set_back_clock>;
    static constexpr bool is_steady = false;
    static inline std::atomic<int> looks{0};
    static time_point now() {
        const auto real = std::chrono::steady_clock::now().time_since_epoch();
        return time_point(looks++ < 1 ? real : real - 200ms);
    }
};

template <class TimePoint>
void gives_up_at_once(redlatch::mutex& lock, redlatch::lease& lease, const TimePoint& instant) {
    CHECK(!lock.try_lock_until(instant) && !lease.try_acquire_until(instant));
}

void busy(const std::string& url) {
    const redlatch::client client(url);
    redlatch::mutex lock(client, "waits");
    redlatch::lease lease(client, "waits");
    other_holder holder(url, "waits");

    for (const auto wait : {100ms, 250ms}) {
        const auto took = time_of([&] { CHECK(!lock.try_lock_for(wait)); });
        CHECK(took >= wait && took < wait + 2s);
    }
    CHECK(time_of([&] { CHECK(!lease.try_acquire_for(std::chrono::duration<double>(0.1))); }) >= 100ms);
    const auto steady = std::chrono::steady_clock::now() + 100ms;
    CHECK(!lock.try_lock_until(steady) && std::chrono::steady_clock::now() >= steady);
    const auto wall = std::chrono::system_clock::now() + 100ms;
    CHECK(!lock.try_lock_until(wall) && std::chrono::system_clock::now() >= wall);
    const auto whole = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now() + 1s);
    CHECK(!lease.try_acquire_until(whole) && std::chrono::system_clock::now() >= whole);

    // The past asks once, however far away it is.
    const auto took = time_of([&] {
        CHECK(!lock.try_lock_for(0ms) && !lock.try_lock_for(-1h) && !lock.try_lock_for(std::chrono::hours::min()));
        gives_up_at_once(lock, lease, std::chrono::steady_clock::time_point::min());
        gives_up_at_once(lock, lease, std::chrono::system_clock::time_point::min());
        gives_up_at_once(lock, lease, std::chrono::system_clock::now() - 1h);
        gives_up_at_once(lock, lease, std::chrono::time_point<std::chrono::system_clock, std::chrono::hours>::min());
    });
    CHECK(took < 2s);

    // Until the clock says so: not 100 ms, but 100 ms and what it was set back.
    set_back_clock::looks = 0;
    const set_back_clock::time_point until(std::chrono::steady_clock::now().time_since_epoch() + 100ms);
    CHECK(time_of([&] { CHECK(!lock.try_lock_until(until)); }) >= 300ms);
}

// Far away is no instant that wrapped round: the wait goes on until the lock is free.
template <class Wait>
void waits_for_release(const std::string& url, const Wait& wait) {
    other_holder holder(url, "far away");
    std::atomic<bool> done{false};
    std::thread waiter([&] {
        const redlatch::client client(url);
        redlatch::mutex lock(client, "far away");
        CHECK(wait(lock));
        done = true;
        lock.unlock();
    });
    const redlatch::client client(url);
    eventually("it waits", [&] {
        const auto found = client.inspect("far away");
        return found && found->find("\"waiters\":1") != std::string::npos;
    });
    CHECK(!done);
    holder.let_go();
    waiter.join();
    CHECK(done);
}

}  // namespace

void waits(const std::string& url) {
    busy(url);
    waits_for_release(url, [](auto& lock) { return lock.try_lock_for(std::chrono::hours::max()); });
    waits_for_release(url, [](auto& lock) { return lock.try_lock_for(std::chrono::nanoseconds::max()); });
    using std::chrono::steady_clock;
    using std::chrono::system_clock;
    waits_for_release(url, [](auto& lock) { return lock.try_lock_until(steady_clock::time_point::max()); });
    waits_for_release(url, [](auto& lock) { return lock.try_lock_until(system_clock::time_point::max()); });
    waits_for_release(url, [](auto& lock) {
        return lock.try_lock_until(std::chrono::time_point<system_clock, std::chrono::hours>::max());
    });
    waits_for_release(url, [](auto& lock) {
        lock.lock();
        return true;
    });
}

namespace {

template <class Wait>
void called_off(const std::string& url, const Wait& wait) {
    other_holder holder(url, "called off");
    const redlatch::cancel_token cancel;
    const redlatch::cancel_token copy = cancel;
    std::thread waiter([&] {
        const redlatch::client client(url);
        const auto error = THROWN(cancelled_error, wait(client, copy));
        CHECK(error.code() == redlatch::errc::cancelled && error.what() != std::string());
    });
    const redlatch::client client(url);
    eventually("it waits", [&] {
        const auto found = client.inspect("called off");
        return found && found->find("\"waiters\":1") != std::string::npos;
    });
    cancel.fire();
    waiter.join();
    // In the background, where the request of the wait is still on its way.
    eventually("it leaves the queue", [&] {
        const auto found = client.inspect("called off");
        return found && found->find("\"waiters\":0") != std::string::npos;
    });
}

}  // namespace

void cancels(const std::string& url) {
    using redlatch::cancel_token;
    using redlatch::client;
    const auto later = [] { return std::chrono::steady_clock::now() + 1h; };
    called_off(url, [](const client& c, const cancel_token& cancel) { redlatch::mutex(c, "called off").lock(cancel); });
    called_off(url, [](const client& c, const cancel_token& cancel) {
        static_cast<void>(redlatch::mutex(c, "called off").try_lock_for(1h, cancel));
    });
    called_off(url, [&](const client& c, const cancel_token& cancel) {
        static_cast<void>(redlatch::mutex(c, "called off").try_lock_until(later(), cancel));
    });
    called_off(url, [](const client& c, const cancel_token& cancel) {
        redlatch::lease(c, "called off").acquire(cancel);
    });
    called_off(url, [](const client& c, const cancel_token& cancel) {
        static_cast<void>(redlatch::lease(c, "called off").try_acquire_for(1h, cancel));
    });
    called_off(url, [&](const client& c, const cancel_token& cancel) {
        static_cast<void>(redlatch::lease(c, "called off").try_acquire_until(later(), cancel));
    });

    // One that is not fired is in nobody's way; one that is stays so.
    const client owner(url);
    redlatch::mutex lock(owner, "not called off");
    const cancel_token cancel;
    CHECK(cancel.native_handle() != nullptr);
    lock.lock(cancel);
    CHECK(lock.try_lock(cancel) && lock.try_lock_for(1s, cancel) && lock.try_lock_until(later(), cancel));
    CHECK(lock.hold_count() == 4);
    for (int n = 0; n < 4; ++n) lock.unlock();
    cancel.fire();
    cancel.fire();
    THROWN(cancelled_error, static_cast<void>(lock.try_lock(cancel)));
    THROWN(cancelled_error, lock.lock(cancel));
    CHECK(lock.hold_count() == 0 && !is_locked(url, "not called off"));
}
