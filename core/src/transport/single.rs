//! One server, or the primary that sentinels name.

use std::sync::Arc;

use crate::clock::Moment;
use crate::protocol::{Acquire, Acquired, Inspection, Key, Release, ReleaseAnswer, Renew, Renewal};

use super::listening::listen;
use super::opener::Opener;
use super::pool::Slots;
use super::server::{Lead, Server};
use super::{Answered, Deployment, Exchange, Fault, Listener, Respondent, Transport, Way};

/// One server.
#[derive(Debug)]
pub(crate) struct Single {
    server: Server,
}

impl Single {
    /// A server behind a pool of `size` slots. Opens nothing and starts no thread.
    pub(crate) fn pooled(opener: Opener, size: u32) -> Single {
        Single { server: Server::new(Arc::new(opener), Slots::pooled(size)) }
    }

    /// Release by commands on one key each: the tombstone first, so that no late copy of the acquire can be granted
    /// after the delete.
    fn release_by_single_keys(&self, request: &Release<'_>, by: Moment) -> Exchange<ReleaseAnswer> {
        if let Some(life) = request.tombstone {
            self.server.bury(Lead::Nothing, request, life, by)?;
        }
        self.server.unlock(Lead::Nothing, request, by)
    }

    fn renew_one_by_one(&self, batch: &[Renew<'_>], by: Moment) -> Exchange<Vec<Renewal>> {
        let began = self.server.opener.clock.now();
        let mut renewed = Vec::with_capacity(batch.len());
        for item in batch.chunks(1) {
            renewed.extend(self.server.renew(Lead::Nothing, item, false, by)?.reply);
        }
        Ok(Answered { reply: renewed, sent: began })
    }
}

/// Whether a cluster node refused a script because its keys are not all there while their slot is being migrated.
/// Before 7.0 it sends such a script to the node that gets the slot, although keys of it are still here.
fn is_migrating(fault: &Fault) -> bool {
    fault.is_code("TRYAGAIN") || fault.is_code("ASK")
}

impl Transport for Single {
    fn acquire(&self, request: &Acquire<'_>, by: Moment) -> Exchange<Acquired> {
        self.server.acquire(Lead::Nothing, request, by)
    }

    fn release(&self, request: &Release<'_>, by: Moment) -> Exchange<ReleaseAnswer> {
        match self.server.release(Lead::Nothing, request, by) {
            Err(fault) if is_migrating(&fault) => self.release_by_single_keys(request, by),
            answer => answer,
        }
    }

    fn renew(&self, batch: &[Renew<'_>], by: Moment) -> Exchange<Vec<Renewal>> {
        match self.server.renew(Lead::Nothing, batch, true, by) {
            Err(fault) if is_migrating(&fault) => self.renew_one_by_one(batch, by),
            answer => answer,
        }
    }

    fn inspect(&self, key: &Key, by: Moment) -> Exchange<Inspection> {
        self.server.inspect(Lead::Nothing, key, by)
    }

    fn listen(&self, channel: &str, listener: &dyn Listener) -> Result<(), Fault> {
        listen(&self.server.opener, channel, listener, &|| true)
    }

    /// Nothing to do: a listener looks by itself several times a second.
    fn nudge(&self, _channel: &str) {}

    fn dedicated(&self) -> Box<dyn Transport> {
        Box::new(Single { server: Server::new(self.server.opener.clone(), Slots::own()) })
    }

    fn deployment(&self, _by: Moment) -> Result<Deployment, Fault> {
        let opener = &self.server.opener;
        let asked = Respondent::new(opener.clone());
        Ok(match &opener.way {
            Way::Primary(sentinels) => {
                let (service, sentinels) = sentinels.respondents(opener.limits, &opener.clock);
                Deployment::Sentinels { service, primary: asked, sentinels }
            }
            Way::Direct(_) | Way::Node(_) => Deployment::Server(asked),
        })
    }

    fn close(&self) {
        self.server.close();
    }

    fn server(&self) -> &str {
        self.server.opener.server()
    }
}
