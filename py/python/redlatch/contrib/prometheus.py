"""The counters of redlatch for Prometheus.

    from prometheus_client import REGISTRY

    REGISTRY.register(RedlatchCollector(client))
    REGISTRY.register(RedlatchCollector({"orders": client, "reports": other}))  # or several, by the label ``client``

Names of locks are no labels: there may be any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from redlatch._client import Client

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ImportError(
        "redlatch.contrib.prometheus needs prometheus_client: pip install 'redlatch[prometheus]'"
    ) from error

__all__ = ["RedlatchCollector"]

# Key of ``stats()`` -> help. The metric is redlatch_<key>_total.
_COUNTERS = {
    "acquired": "Leases granted; nested acquires are not counted.",
    "busy": "Tries that found the lock busy and did not wait.",
    "timed_out": "Waits that ended with the lock still busy.",
    "unavailable": "Acquires that ended without a usable answer from the server.",
    "acquire_failed": "Acquires that ended with another error: credentials, permission, foreign data, closed.",
    "not_replicated": "Grants that were given back for want of acknowledging replicas.",
    "cancelled": "Waits that were called off by their cancel token.",
    "push_wakeups": "Requests that waiters sent because the server woke them.",
    "poll_wakeups": "Requests that waiters sent because it was time to ask again.",
    "pushes": "Messages that arrived in the inbox of the client.",
    "inbox_lost": "Failures to open the inbox or to keep it connected, during which waiters poll.",
    "renewed": "Leases renewed in the background.",
    "renewal_retried": "Background renewals sent again after one without an answer.",
    "renewal_failed": "Background renewals without an answer, one for each lease and try.",
    "renewal_late": "Background renewals sent later than two thirds of the ttl after the last good one.",
    "released": "Leases released by their holder and confirmed by the server.",
    "release_failed": "Releases that ended with an error other than a lost lease.",
    "release_unconfirmed": "Releases that the server did not confirm in time and that went on in the background.",
    "background_released": "Background releases that the server confirmed.",
    "background_gave_up": "Background releases given up: the key lapses by its ttl.",
    "abandoned": "Leases whose thread ended without releasing them.",
    "publish_denied": "Releases whose wake-up the access rules of the server forbade to publish.",
    "callback_panicked": "Errors caught in on_lost callbacks.",
    "thread_panicked": "Defects caught in the threads of redlatch.",
}
# Key of ``stats()`` -> (metric, help).
_GAUGES = {
    "held_now": ("redlatch_held", "Leases held now, re-entrant locks counted once."),
    "waiting_now": ("redlatch_waiting", "Callers blocked in an acquire now."),
    "background_now": ("redlatch_background_releases", "Releases that wait for the background now."),
    "push_denied": ("redlatch_push_denied", "1 when the access rules of the server make waiters poll for good."),
}
# Key of ``stats()`` -> (metric, metric of the largest value, help, unit of the metric in that of the stats).
_SUMMARIES = {
    "wait_seconds": ("redlatch_wait_seconds", "redlatch_wait_max_seconds", "Time from call to grant or giving up", 1),
    "hold_seconds": ("redlatch_hold_seconds", "redlatch_hold_max_seconds", "Time from grant to release or loss", 1),
    "hold_percent_of_ttl": (
        "redlatch_hold_ttl_ratio",
        "redlatch_hold_ttl_max_ratio",
        "Hold time by the ttl of the lock: above 1 only renewal kept the lease",
        100,
    ),
    "renewal_delay_seconds": (
        "redlatch_renewal_delay_seconds",
        "redlatch_renewal_delay_max_seconds",
        "Time from when a background renewal was due until it was sent",
        1,
    ),
}
_QUANTILES = {"p50": "0.5", "p99": "0.99", "p999": "0.999"}


class RedlatchCollector(Collector):
    """Exports ``Client.stats()`` of one or several clients of this process.

    Counters ``redlatch_…_total``, ``redlatch_lost_total`` by ``reason``, gauges, and summaries of the times in
    seconds, since each client was made. All carry the label ``client``. A scrape asks no lock server.

    A forked child counts for itself from zero, so each process is scraped by itself: the multiprocess mode of
    prometheus_client exports no collectors.
    """

    def __init__(self, clients: Client | Mapping[str, Client]) -> None:
        """``clients``: one, with the label ``client="default"``, or several by their labels.

        One registry takes one of these: a second raises ``ValueError`` when it is registered.
        """
        self._clients: dict[str, Client] = {"default": clients} if isinstance(clients, Client) else dict(clients)

    def describe(self) -> Iterator[Metric]:
        """The metrics without samples, so that registering asks nothing of the clients."""
        return iter(_Families().all())

    def collect(self) -> Iterator[Metric]:
        """The metrics of all clients now."""
        families = _Families()
        for label, client in self._clients.items():
            families.add(label, client.stats())
        return iter(families.all())


class _Families:
    """The metrics of one scrape."""

    def __init__(self) -> None:
        self._counters = {
            key: CounterMetricFamily(f"redlatch_{key}", text, labels=["client"]) for key, text in _COUNTERS.items()
        }
        self._gauges = {key: GaugeMetricFamily(name, text, labels=["client"]) for key, (name, text) in _GAUGES.items()}
        self._summaries = {
            key: SummaryMetricFamily(name, f"{text}.", labels=["client"])
            for key, (name, _, text, _) in _SUMMARIES.items()
        }
        self._largest = {
            key: GaugeMetricFamily(name, f"{text}: the largest.", labels=["client"])
            for key, (_, name, text, _) in _SUMMARIES.items()
        }
        self._longest = GaugeMetricFamily(
            "redlatch_longest_hold_seconds", "For how long the lease held longest now is held.", labels=["client"]
        )
        self._lost = CounterMetricFamily("redlatch_lost", "Leases lost, by reason.", labels=["client", "reason"])

    def add(self, label: str, stats: Mapping[str, Any]) -> None:
        for key, counter in self._counters.items():
            counter.add_metric([label], stats[key])
        for key, gauge in self._gauges.items():
            gauge.add_metric([label], stats[key])
        for reason, count in stats["lost"].items():
            self._lost.add_metric([label, str(reason)], count)
        longest = stats["longest_hold_now"]
        self._longest.add_metric([label], longest["held"] if longest else 0)
        for key, summary in self._summaries.items():
            times, unit = stats[key], _SUMMARIES[key][3]
            summary.add_metric([label], count_value=times["count"], sum_value=times["mean"] * times["count"] / unit)
            for quantile, shown in _QUANTILES.items() if times["count"] else ():
                summary.add_sample(summary.name, {"client": label, "quantile": shown}, times[quantile] / unit)
            self._largest[key].add_metric([label], times["max"] / unit)

    def all(self) -> list[Metric]:
        return [
            *self._counters.values(),
            self._lost,
            *self._gauges.values(),
            self._longest,
            *self._summaries.values(),
            *self._largest.values(),
        ]
