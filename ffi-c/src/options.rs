//! Options of clients and locks: structs that begin with their size.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr;

use redlatch_core::options::{
    CONNECT_TIMEOUT, DurationOption, FENCE_RETENTION, IO_TIMEOUT, MAX_HOLD, MIN_REPLICAS, POOL_SIZE, POOL_TIMEOUT,
    RENEWAL_THREADS, REPLICA_TIMEOUT, TTL, TURN, UNAVAILABLE_AFTER,
};
use redlatch_core::{Client, Error};

use crate::boundary::{Outcome, call, null};
use crate::last_error::Failure;
use crate::status::REDLATCH_OK;
use crate::text::{self, NUL_TERMINATED};

/// Options of a client. Fill it with redlatch_client_options_init, then change what is to be different.
///
/// A text that is NULL is not set; a length is the text's in bytes, or REDLATCH_NUL_TERMINATED, which init puts there.
/// redlatch_client_open copies what it needs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ClientOptions {
    /// Set by redlatch_client_options_init; leave it.
    pub size: usize,
    /// What stands before every name to make its key, at most 256 bytes; plain clients that share a key must use the
    /// same. Defaults to "lock:".
    pub key_prefix: *const c_char,
    /// Length of key_prefix.
    pub key_prefix_len: usize,
    /// A word that shows in tokens and redlatch_inspect, to tell workers apart: 1 to 64 ASCII letters, digits, '.',
    /// '_', '-', '/'. Defaults to none.
    pub label: *const c_char,
    /// Length of label.
    pub label_len: usize,
    /// Path of a PEM file with the authorities that may vouch for a rediss:// server; only these are trusted then.
    /// Defaults to the platform's store.
    pub tls_ca: *const c_char,
    /// Length of tls_ca.
    pub tls_ca_len: usize,
    /// Path of a PEM file with the certificate that this client shows to a rediss:// server, together with tls_key.
    /// Defaults to none.
    pub tls_cert: *const c_char,
    /// Length of tls_cert.
    pub tls_cert_len: usize,
    /// Path of a PEM file with the private key of tls_cert, not encrypted. Defaults to none.
    pub tls_key: *const c_char,
    /// Length of tls_key.
    pub tls_key_len: usize,
    /// Limit of opening a connection, name lookup and login included, 10 to 60000 ms. Defaults to 1000.
    pub connect_timeout_ms: i64,
    /// Limit of one request and its reply, 10 to 60000 ms. Defaults to 1000.
    pub io_timeout_ms: i64,
    /// Limit of the wait for a free connection, 10 to 60000 ms. 0, the default: what is left of the call's time.
    pub pool_timeout_ms: i64,
    /// Continuous outage after which an acquire without a limit gives up, 100 ms to 24 h. Defaults to 10000.
    pub unavailable_after_ms: i64,
    /// How long the server keeps a lock's last fence after a grant, 1 s to 30 days. Defaults to 3600000.
    pub fence_retention_ms: i64,
    /// How long a released lock stays reserved for the first waiter, 500 to 10000 ms. Defaults to 1000.
    pub turn_ms: i64,
    /// How long the server waits for the acknowledgement of a grant by min_replicas, 10 to 60000 ms. Defaults to 100.
    pub replica_timeout_ms: i64,
    /// How many replicas must acknowledge a grant before it is one, 0 to 16. Defaults to 0: none is asked.
    pub min_replicas: u32,
    /// Connections that callers share, 1 to 1024. Defaults to 8.
    pub pool_size: u32,
    /// Threads that renew leases, each with a connection of its own, 1 to 64. Defaults to 2.
    pub renewal_threads: u32,
    /// 0.
    pub reserved: u32,
}

/// Options of a lock or lease. Fill it with redlatch_lock_options_init, then change what is to be different.
///
/// While a thread holds a lock, the options of the handle that acquired it first apply until its last release.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LockOptions {
    /// Set by redlatch_lock_options_init; leave it.
    pub size: usize,
    /// How long the lease lives without renewal, 100 ms to 24 h: after a crash of the holder others wait at most this
    /// long. Defaults to 30000.
    pub ttl_ms: i64,
    /// The longest time a lease is kept, whatever its holder does: then renewal stops and the lease is lost. From the
    /// ttl to 365 days. 0, the default: no limit.
    pub max_hold_ms: i64,
    /// Whether the lease is renewed in the background, every third of the ttl: 1, the default, or 0, with which it
    /// ends after one ttl unless it is renewed by call.
    pub auto_renew: i32,
    /// 0.
    pub reserved: u32,
}

/// A struct whose size says which version of it the program was built with.
///
/// # Safety
/// The type is `repr(C)`, begins with a `usize` that is its size, and holds any bytes: integers and raw pointers only.
pub(crate) unsafe trait Versioned: Copy {
    /// The sizes of all released versions; the last is the type's own.
    const SIZES: &'static [usize];

    /// The default of every field.
    fn defaults() -> Self;
}

// SAFETY: as the trait asks, see the fields.
unsafe impl Versioned for ClientOptions {
    const SIZES: &'static [usize] = &[size_of::<ClientOptions>()];

    fn defaults() -> ClientOptions {
        let (unset, length) = (ptr::null(), NUL_TERMINATED);
        ClientOptions {
            size: size_of::<ClientOptions>(),
            key_prefix: unset,
            key_prefix_len: length,
            label: unset,
            label_len: length,
            tls_ca: unset,
            tls_ca_len: length,
            tls_cert: unset,
            tls_cert_len: length,
            tls_key: unset,
            tls_key_len: length,
            connect_timeout_ms: default_of(&CONNECT_TIMEOUT),
            io_timeout_ms: default_of(&IO_TIMEOUT),
            pool_timeout_ms: default_of(&POOL_TIMEOUT),
            unavailable_after_ms: default_of(&UNAVAILABLE_AFTER),
            fence_retention_ms: default_of(&FENCE_RETENTION),
            turn_ms: default_of(&TURN),
            replica_timeout_ms: default_of(&REPLICA_TIMEOUT),
            min_replicas: MIN_REPLICAS.default,
            pool_size: POOL_SIZE.default,
            renewal_threads: RENEWAL_THREADS.default,
            reserved: 0,
        }
    }
}

// SAFETY: as the trait asks, see the fields.
unsafe impl Versioned for LockOptions {
    const SIZES: &'static [usize] = &[size_of::<LockOptions>()];

    fn defaults() -> LockOptions {
        LockOptions {
            size: size_of::<LockOptions>(),
            ttl_ms: default_of(&TTL),
            max_hold_ms: default_of(&MAX_HOLD),
            auto_renew: 1,
            reserved: 0,
        }
    }
}

/// 0 where there is no limit by default.
fn default_of(option: &DurationOption) -> i64 {
    option.default.map_or(0, |default| i64::try_from(default.as_millis()).unwrap_or(i64::MAX))
}

/// Larger than any struct of options will be: a size above it was never set.
const LARGEST: usize = 4096;

fn check_size<T: Versioned>(size: usize) -> Result<(), Failure> {
    if T::SIZES.contains(&size) || (size_of::<T>()..=LARGEST).contains(&size) {
        return Ok(());
    }
    Err(Failure::invalid(format!("the size of the options is {size}, not {}: call their init first", size_of::<T>())))
}

/// Fills the caller's struct, of whichever version, with the defaults.
///
/// # Safety
/// `options` is NULL or `size` bytes can be written there.
unsafe fn init<T: Versioned>(options: *mut T, size: usize) -> Outcome {
    if options.is_null() {
        return Err(null("options"));
    }
    check_size::<T>(size)?;
    let (mut defaults, known) = (T::defaults(), size.min(size_of::<T>()));
    // SAFETY: `Versioned` says that the size comes first.
    unsafe { (&raw mut defaults).cast::<usize>().write(size) };
    // SAFETY: the caller says that `size` bytes can be written; `known` is no more than that, nor than a `T` has.
    unsafe {
        options.cast::<u8>().write_bytes(0, size);
        options.cast::<MaybeUninit<u8>>().copy_from_nonoverlapping((&raw const defaults).cast(), known);
    }
    Ok(REDLATCH_OK)
}

/// The caller's options, of whichever version; NULL is the defaults.
///
/// # Safety
/// `options` is NULL or points to a struct that is as large as it says.
unsafe fn read<T: Versioned>(options: *const T) -> Result<T, Failure> {
    let mut known = T::defaults();
    if options.is_null() {
        return Ok(known);
    }
    // SAFETY: `Versioned` says that the size comes first.
    let size = unsafe { options.cast::<usize>().read() };
    check_size::<T>(size)?;
    for at in size_of::<T>()..size {
        // SAFETY: the struct is as large as it says.
        if unsafe { options.cast::<u8>().add(at).read() } != 0 {
            let text = "the options have fields that this version of the library does not know, and they are set";
            return Err(Failure::invalid(text));
        }
    }
    // SAFETY: no more bytes than either has; `Versioned` says that any bytes make a `T`.
    unsafe {
        let from = options.cast::<MaybeUninit<u8>>();
        from.copy_to_nonoverlapping((&raw mut known).cast(), size.min(size_of::<T>()));
    }
    Ok(known)
}

fn check_reserved(reserved: u32) -> Result<(), Failure> {
    if reserved == 0 { Ok(()) } else { Err(Failure::invalid("reserved is not 0: call the init of the options first")) }
}

/// A client of the server at `url`.
///
/// # Safety
/// `options` is NULL or points to a struct that is as large as it says; its texts can be read.
pub(crate) unsafe fn client(url: &str, options: *const ClientOptions) -> Result<Client, Failure> {
    // SAFETY: as promised by the caller.
    let options = unsafe { read(options) }?;
    check_reserved(options.reserved)?;
    let mut builder = Client::builder(url)
        .connect_timeout(CONNECT_TIMEOUT.check_millis(options.connect_timeout_ms)?)
        .io_timeout(IO_TIMEOUT.check_millis(options.io_timeout_ms)?)
        .unavailable_after(UNAVAILABLE_AFTER.check_millis(options.unavailable_after_ms)?)
        .fence_retention(FENCE_RETENTION.check_millis(options.fence_retention_ms)?)
        .turn(TURN.check_millis(options.turn_ms)?)
        .replica_timeout(REPLICA_TIMEOUT.check_millis(options.replica_timeout_ms)?)
        .min_replicas(options.min_replicas)
        .pool_size(options.pool_size)
        .renewal_threads(options.renewal_threads);
    if options.pool_timeout_ms != 0 {
        builder = builder.pool_timeout(POOL_TIMEOUT.check_millis(options.pool_timeout_ms)?);
    }
    // SAFETY: as promised by the caller.
    let given = |text, length, argument| unsafe { optional_text(text, length, argument) };
    if let Some(key_prefix) = given(options.key_prefix, options.key_prefix_len, "key_prefix")? {
        builder = builder.key_prefix(key_prefix);
    }
    if let Some(label) = given(options.label, options.label_len, "label")? {
        builder = builder.label(label);
    }
    if let Some(path) = given(options.tls_ca, options.tls_ca_len, "tls_ca")? {
        builder = builder.tls_ca(path);
    }
    if let Some(path) = given(options.tls_cert, options.tls_cert_len, "tls_cert")? {
        builder = builder.tls_cert(path);
    }
    if let Some(path) = given(options.tls_key, options.tls_key_len, "tls_key")? {
        builder = builder.tls_key(path);
    }
    Ok(builder.build()?)
}

/// `None` for a text that is not set.
///
/// # Safety
/// As [`text::read`].
unsafe fn optional_text<'a>(text: *const c_char, length: usize, argument: &str) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as promised by the caller.
    unsafe { text::read(text, length, argument) }.map(Some)
}

/// The core's options of a lock, without a callback.
///
/// # Safety
/// `options` is NULL or points to a struct that is as large as it says.
pub(crate) unsafe fn lock(options: *const LockOptions) -> Result<redlatch_core::LockOptions, Failure> {
    // SAFETY: as promised by the caller.
    let options = unsafe { read(options) }?;
    check_reserved(options.reserved)?;
    let auto_renew = match options.auto_renew {
        0 => false,
        1 => true,
        other => {
            let (value, expected) = (other.to_string(), "1 or 0".to_owned());
            return Err(Error::Config { option: "auto_renew", value, expected }.into());
        }
    };
    let ttl = TTL.check_millis(options.ttl_ms)?;
    let mut checked = redlatch_core::LockOptions::new().ttl(ttl).auto_renew(auto_renew);
    if options.max_hold_ms != 0 {
        checked = checked.max_hold(MAX_HOLD.check_millis(options.max_hold_ms)?);
    }
    Ok(checked)
}

/// Fills options with the defaults. size is sizeof *options, by which the library knows the version of the header
/// that the program was built with.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_client_options_init(options: *mut ClientOptions, size: usize) -> i32 {
    // SAFETY: the caller says that it is NULL or that `size` bytes can be written there.
    call(|| unsafe { init(options, size) })
}

/// As redlatch_client_options_init, for the options of a lock or lease.
///
/// REDLATCH_OK; REDLATCH_INVALID_ARGUMENT.
/// Thread-safe. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn redlatch_lock_options_init(options: *mut LockOptions, size: usize) -> i32 {
    // SAFETY: the caller says that it is NULL or that `size` bytes can be written there.
    call(|| unsafe { init(options, size) })
}
