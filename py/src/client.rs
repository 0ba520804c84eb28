//! Clients, and what locks are made with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use redlatch::options::{
    CONNECT_TIMEOUT, FENCE_RETENTION, IO_TIMEOUT, MAX_HOLD, MIN_REPLICAS, POOL_SIZE, RENEWAL_THREADS, REPLICA_TIMEOUT,
    TTL, TURN, UNAVAILABLE_AFTER,
};
use redlatch::{LockOptions, Result};

use crate::callback::Callback;
use crate::clock::ManualClock;
use crate::dispatch::{self, call};
use crate::lease::Lease;
use crate::lock::Lock;
use crate::{arguments, errors, holders, statistics};

/// A client that Python objects share. The last of them does not wait for its end: it may go in a garbage collection.
pub(crate) struct Shared {
    client: Option<redlatch::Client>,
    /// It has asked for a lock, and may have threads since.
    used: AtomicBool,
}

impl Shared {
    fn new(client: redlatch::Client) -> Shared {
        Shared { client: Some(client), used: AtomicBool::new(false) }
    }

    /// The client, to ask for a lock: from here on it may have threads, and something to say.
    pub(crate) fn used(&self, py: Python<'_>) -> PyResult<&redlatch::Client> {
        dispatch::start(py)?;
        self.used.store(true, Ordering::Relaxed);
        Ok(self.client())
    }

    pub(crate) fn client(&self) -> &redlatch::Client {
        match &self.client {
            Some(client) => client,
            None => unreachable!("only drop takes the client"),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        if !*self.used.get_mut() || client.is_closed() {
            return;
        }
        // Its end joins threads, which may be waiting for a server. Where none can be started, it ends here.
        let named = std::thread::Builder::new().name("redlatch-close".to_owned());
        let _ = named.spawn(move || drop(client));
    }
}

/// The options of one lock or lease.
pub(crate) struct Settings {
    options: LockOptions,
    /// How long `with` waits; `None` for no limit.
    pub(crate) wait: Option<Duration>,
    pub(crate) on_lost: Option<Py<PyAny>>,
}

impl Settings {
    fn new(
        ttl: &Bound<'_, PyAny>,
        auto_renew: &Bound<'_, PyAny>,
        max_hold: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
        on_lost: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Settings> {
        let mut options = LockOptions::new().ttl(arguments::span(&TTL, ttl)?);
        options = options.auto_renew(arguments::flag("auto_renew", auto_renew)?);
        if let Some(max_hold) = arguments::optional_span(&MAX_HOLD, max_hold)? {
            options = options.max_hold(max_hold);
        }
        let wait = wait.map(|wait| arguments::wait("wait", wait, Some("None"))).transpose()?;
        if let Some(on_lost) = &on_lost
            && !on_lost.is_callable()
        {
            let text = format!("on_lost must be callable, not {}", arguments::kind(on_lost));
            return Err(pyo3::exceptions::PyTypeError::new_err(text));
        }
        Ok(Settings { options, wait, on_lost: on_lost.map(Bound::unbind) })
    }

    /// The core's options without a callback.
    pub(crate) fn options(&self) -> LockOptions {
        self.options.clone()
    }
}

/// The core's options for one grant, which keeps `on_lost` alive.
pub(crate) fn with_callback(options: &LockOptions, on_lost: Py<PyAny>) -> LockOptions {
    let callback = Callback::new(on_lost);
    options.clone().on_lost(move |info| callback.fire(info))
}

/// What ``redlatch.Client`` is made of.
#[pyclass(frozen, weakref, module = "redlatch._native")]
pub(crate) struct NativeClient {
    shared: Arc<Shared>,
}

#[pymethods]
impl NativeClient {
    #[new]
    #[pyo3(signature = (
        url, *, key_prefix, pool_size, connect_timeout, io_timeout, renewal_threads, unavailable_after, label, turn,
        fence_retention, min_replicas, replica_timeout, tls_ca, tls_cert, tls_key, manual_clock=None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        url: &Bound<'_, PyAny>,
        key_prefix: &Bound<'_, PyAny>,
        pool_size: &Bound<'_, PyAny>,
        connect_timeout: &Bound<'_, PyAny>,
        io_timeout: &Bound<'_, PyAny>,
        renewal_threads: &Bound<'_, PyAny>,
        unavailable_after: &Bound<'_, PyAny>,
        label: Option<&Bound<'_, PyAny>>,
        turn: &Bound<'_, PyAny>,
        fence_retention: &Bound<'_, PyAny>,
        min_replicas: &Bound<'_, PyAny>,
        replica_timeout: &Bound<'_, PyAny>,
        tls_ca: Option<&Bound<'_, PyAny>>,
        tls_cert: Option<&Bound<'_, PyAny>>,
        tls_key: Option<&Bound<'_, PyAny>>,
        manual_clock: Option<&ManualClock>,
    ) -> PyResult<NativeClient> {
        let mut builder = redlatch::Client::builder(&arguments::text("url", url)?)
            .key_prefix(&arguments::text("key_prefix", key_prefix)?)
            .pool_size(arguments::count(&POOL_SIZE, pool_size)?)
            .connect_timeout(arguments::span(&CONNECT_TIMEOUT, connect_timeout)?)
            .io_timeout(arguments::span(&IO_TIMEOUT, io_timeout)?)
            .renewal_threads(arguments::count(&RENEWAL_THREADS, renewal_threads)?)
            .unavailable_after(arguments::span(&UNAVAILABLE_AFTER, unavailable_after)?)
            .turn(arguments::span(&TURN, turn)?)
            .fence_retention(arguments::span(&FENCE_RETENTION, fence_retention)?)
            .min_replicas(arguments::count(&MIN_REPLICAS, min_replicas)?)
            .replica_timeout(arguments::span(&REPLICA_TIMEOUT, replica_timeout)?)
            .holder_function(holders::current, holders::name);
        if let Some(label) = label {
            builder = builder.label(&arguments::text("label", label)?);
        }
        if let Some(file) = tls_ca {
            builder = builder.tls_ca(arguments::text("tls_ca", file)?);
        }
        if let Some(file) = tls_cert {
            builder = builder.tls_cert(arguments::text("tls_cert", file)?);
        }
        if let Some(file) = tls_key {
            builder = builder.tls_key(arguments::text("tls_key", file)?);
        }
        if let Some(clock) = manual_clock {
            builder = builder.manual_clock(&clock.clock);
        }
        let client = builder.build().map_err(|error| errors::raise(py, error))?;
        Ok(NativeClient { shared: Arc::new(Shared::new(client)) })
    }

    #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[pyo3(signature = (name, ttl, auto_renew, max_hold, wait, on_lost))]
    fn lock(
        &self,
        name: &Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
        auto_renew: &Bound<'_, PyAny>,
        max_hold: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
        on_lost: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Lock> {
        let settings = Settings::new(ttl, auto_renew, max_hold, wait, on_lost)?;
        Lock::new(name.py(), self.shared.clone(), &arguments::text("name", name)?, settings)
    }

    #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[pyo3(signature = (name, ttl, auto_renew, max_hold, wait, on_lost))]
    fn lease(
        &self,
        name: &Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
        auto_renew: &Bound<'_, PyAny>,
        max_hold: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
        on_lost: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Lease> {
        let settings = Settings::new(ttl, auto_renew, max_hold, wait, on_lost)?;
        Lease::new(name.py(), self.shared.clone(), &arguments::text("name", name)?, settings)
    }

    #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[pyo3(signature = (name, token, ttl, auto_renew, max_hold, wait, on_lost))]
    fn adopt(
        &self,
        name: &Bound<'_, PyAny>,
        token: &Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
        auto_renew: &Bound<'_, PyAny>,
        max_hold: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
        on_lost: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Lease> {
        let settings = Settings::new(ttl, auto_renew, max_hold, wait, on_lost)?;
        let token = arguments::text("token", token)?;
        Lease::adopt(name.py(), self.shared.clone(), &arguments::text("name", name)?, &token, settings)
    }

    #[allow(clippy::type_complexity, reason = "the fields of LockInfo")]
    fn inspect(
        &self,
        name: &Bound<'_, PyAny>,
    ) -> PyResult<Option<(String, String, Option<String>, Option<f64>, Option<u64>, u64)>> {
        let asked = arguments::text("name", name)?;
        let found = self.ask(name.py(), |client| client.inspect(&asked))?;
        Ok(found.map(|found| {
            let (token, owner) = (found.token().as_str().to_owned(), found.owner().map(str::to_owned));
            let left = found.ttl_left().map(|left| left.as_secs_f64());
            (found.name().to_owned(), token, owner, left, found.fence(), found.waiters())
        }))
    }

    fn force_release(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let asked = arguments::text("name", name)?;
        self.ask(name.py(), |client| client.force_release(&asked))
    }

    /// Severity, kind, server and message of each finding.
    fn check_server(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, &'static str, String, String)>> {
        let found = self.ask(py, redlatch::Client::check_server)?;
        let fields = |finding: redlatch::Finding| {
            let (server, message) = (finding.server().to_owned(), finding.message().to_owned());
            (finding.severity().as_str(), finding.kind().as_str(), server, message)
        };
        Ok(found.into_iter().map(fields).collect())
    }

    /// For tests: takes the lock away, and lets its holder in this process know at once.
    fn lose(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let asked = arguments::text("name", name)?;
        self.ask(name.py(), |client| client.lose(&asked))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, said) = call(py, || self.shared.client().stats());
        said?;
        statistics::as_dict(py, &stats)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let ((), said) = call(py, || self.shared.client().close());
        said
    }

    fn __repr__(&self) -> String {
        let client = self.shared.client();
        let closed = if client.is_closed() { "True" } else { "False" };
        let (server, key_prefix) = (client.server(), arguments::shown(client.key_prefix()));
        format!("<redlatch.Client server={server} key_prefix={key_prefix} closed={closed}>")
    }
}

impl NativeClient {
    fn ask<T: Send>(&self, py: Python<'_>, ask: impl FnOnce(&redlatch::Client) -> Result<T> + Send) -> PyResult<T> {
        let (answer, said) = call(py, || ask(self.shared.client()));
        said?;
        answer.map_err(|error| errors::raise(py, error))
    }
}
