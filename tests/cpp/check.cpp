// client::check_server.
#include "support.hpp"

#include <algorithm>
#include <type_traits>
#include <vector>

namespace {

static_assert(redlatch::severity::problem > redlatch::severity::warning &&
              redlatch::severity::warning > redlatch::severity::info);
static_assert(std::is_copy_constructible_v<redlatch::finding> && std::is_nothrow_move_constructible_v<redlatch::finding>);

}  // namespace

void checks(const std::string& url) {
    const redlatch::client client(url);
    const std::vector<redlatch::finding> found = client.check_server();
    CHECK(!found.empty());
    const bool memory = url.rfind("memory://", 0) == 0;
    for (const auto& finding : found) {
        CHECK(!finding.kind.empty() && finding.server.find("://") != std::string::npos);
        CHECK(finding.message.size() > 40 && finding.severity != redlatch::severity::problem);
        CHECK((finding.kind == "memory") == memory);
    }
    const auto is_worse = [](const auto& one, const auto& other) { return one.severity > other.severity; };
    CHECK(std::is_sorted(found.begin(), found.end(), is_worse));
    // The servers of the tests keep nothing.
    CHECK(memory || (found.front().kind == "no_persistence" && found.front().severity == redlatch::severity::warning));
    CHECK(redlatch::to_string(found.front().severity) == (memory ? "info" : "warning"));
    CHECK(redlatch::to_string(redlatch::severity::problem) == "problem");

    client.close();
    THROWN(closed_error, static_cast<void>(client.check_server()));
    const redlatch::client nobody("redis://127.0.0.1:1");
    THROWN(unavailable_error, static_cast<void>(nobody.check_server()));
}
