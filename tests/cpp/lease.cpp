// lease, and adoption.
#include "support.hpp"

namespace {

void one_hold(const std::string& url) {
    const redlatch::client client(url);
    redlatch::lease lease(client, "lease");
    CHECK(lease.native_handle() != nullptr && !lease.is_held() && lease.remaining() == 0ms && !lease.lost());
    THROWN(not_held_error, lease.check());
    THROWN(not_held_error, lease.renew());
    THROWN(not_held_error, static_cast<void>(lease.fence()));
    THROWN(not_held_error, static_cast<void>(lease.token()));
    THROWN(not_held_error, static_cast<void>(lease.into_token()));
    THROWN(not_held_error, static_cast<void>(lease.release()));

    lease.acquire();
    lease.check();
    lease.renew();
    CHECK(lease.is_held() && lease.remaining() > 20s && lease.fence() > 0 && lease.token().find('@') == 36);
    // Nobody re-enters it, on whatever thread.
    THROWN(in_use_error, lease.acquire());
    THROWN(in_use_error, static_cast<void>(lease.adopt(lease.token())));
    redlatch::lease other(client, "lease");
    CHECK(!other.try_acquire() && !other.try_acquire_for(20ms));
    CHECK(!other.try_acquire_until(std::chrono::system_clock::now() + 20ms));

    // Any thread may release it.
    elsewhere([&] { CHECK(lease.release() == redlatch::released::released); });
    CHECK(!lease.is_held());
    CHECK(other.try_acquire());
    CHECK(other.release() == redlatch::released::released);
    CHECK(lease.try_acquire_for(1s) && lease.release() == redlatch::released::released);
    CHECK(lease.try_acquire_until(std::chrono::steady_clock::now() + 1s));
    CHECK(lease.release() == redlatch::released::released);
}

void handed_over(const std::string& url) {
    const redlatch::client giver(url);
    const redlatch::client taker(url);
    redlatch::lease lease(giver, "handed over");
    lease.acquire();
    const std::uint64_t fence = lease.fence();
    const std::string token = lease.into_token();
    CHECK(!lease.is_held() && is_locked(url, "handed over"));

    auto adopted = taker.adopt("handed over", token, {5s});
    CHECK(adopted && adopted->is_held() && adopted->fence() > fence && adopted->token() != token);
    CHECK(adopted->remaining() <= 5s);
    // The old token proves nothing any more.
    CHECK(!giver.adopt("handed over", token));
    CHECK(!lease.adopt(token));
    CHECK(adopted->release() == redlatch::released::released);
    THROWN(config_error, static_cast<void>(taker.adopt("handed over", std::string(600, 'x'))));

    lease.acquire();
    redlatch::lease target(taker, "handed over");
    CHECK(target.adopt(lease.into_token()) && target.is_held());
    CHECK(target.release() == redlatch::released::released);
}

void taken(const std::string& url) {
    const redlatch::client client(url);
    redlatch::lease lease(client, "lease taken");
    lease.acquire();
    const std::uint64_t fence = lease.fence();
    CHECK(client.force_release("lease taken"));
    CHECK(THROWN(lost_error, lease.renew()).reason() == redlatch::lost_reason::taken);
    CHECK(lease.lost() == redlatch::lost_reason::taken && !lease.is_held());
    CHECK(THROWN(lost_error, static_cast<void>(lease.into_token())).fence() == fence);
    lease.acquire();
    CHECK(client.force_release("lease taken"));
    THROWN(lost_error, lease.renew());
    THROWN(lost_error, static_cast<void>(lease.release()));
    CHECK(!lease.lost());
}

}  // namespace

void leases(const std::string& url) {
    one_hold(url);
    handed_over(url);
    taken(url);
}
