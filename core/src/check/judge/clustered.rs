//! Nodes of a cluster: what they say of it, and clients that do not know that it is one.

use crate::check::account::Account;
use crate::check::finding::{Finding, FindingKind, Severity};
use crate::transport::{Fault, FaultKind};

use super::{Notes, Place, Terms};

pub(super) fn judge(account: &Account, terms: &Terms, notes: &mut Notes<'_>) {
    let cluster = account.cluster().unwrap_or_default();
    if terms.place != Place::InCluster {
        if account.info.is("cluster_enabled", "1") {
            stray(cluster.number("cluster_size"), notes);
        }
    } else if let Some(state) = cluster.get("cluster_state").filter(|state| *state != "ok") {
        let message = format!(
            "the cluster is in state {state} as this node sees it: it refuses requests (CLUSTERDOWN), and locks here are \
             Unavailable. Bring the nodes back that are missing; see CLUSTER NODES"
        );
        notes.problem(FindingKind::ClusterState, message);
    }
}

/// A client of one server at a node.
fn stray(size: Option<u64>, notes: &mut Notes<'_>) {
    if size == Some(1) {
        let message = "this is the one node of a cluster that has slots. A URL of one server works until another node gets some of \
                       them. Use redis+cluster://";
        notes.warning(FindingKind::ClusterNode, message);
    } else {
        let message = "this is a node of a cluster, and has only some of the slots: locks in the others are refused (MOVED) and \
                       Unavailable. Use redis+cluster://";
        notes.problem(FindingKind::ClusterNode, message);
    }
}

/// Slots that no node has.
pub(in crate::check) fn uncovered(slots: usize, url: &str) -> Option<Finding> {
    let message = format!(
        "{slots} slots of the cluster have no node: locks in them are Unavailable, and with cluster-require-full-coverage yes \
         those in all others. Give each slot a node"
    );
    (slots > 0).then(|| Finding::new(Severity::Problem, FindingKind::ClusterState, url, message))
}

/// A primary that could not be judged. That the check `is_over` says nothing of a node that has not answered by then.
pub(in crate::check) fn silent(node: &str, fault: &Fault, is_over: bool) -> Finding {
    if is_over && fault.kind == FaultKind::Unreachable {
        let message = "no time was left to ask this primary of the cluster everything: nothing of it was checked. Raise io_timeout or \
                       connect_timeout for the check, or look there by hand";
        return Finding::new(Severity::Info, FindingKind::NotChecked, node, message);
    }
    let message = format!(
        "this primary of the cluster gives no usable answer ({}): locks in its slots are Unavailable until it is back, or a \
         replica has taken over",
        fault.detail
    );
    Finding::new(Severity::Problem, FindingKind::Unreachable, node, message)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{ALONE, severity};
    use super::super::server;
    use super::*;
    use crate::check::account::samples::{account, answering};
    use crate::check::questions::Question;

    #[test]
    fn a_node_behind_a_url_of_one_server_is_a_problem_unless_it_has_all_slots() {
        let found = |enabled: &str, cluster: &str| {
            let account =
                answering(account(&format!("cluster_enabled:{enabled}"), &[]), Question::ClusterInfo, cluster);
            severity(&server(&account, &ALONE), FindingKind::ClusterNode)
        };
        assert_eq!(found("0", "-ERR This instance has cluster support disabled"), None);
        assert_eq!(found("1", "cluster_size:3"), Some(Severity::Problem));
        assert_eq!(found("1", "-NOPERM no permission"), Some(Severity::Problem));
        assert_eq!(found("1", "cluster_size:1"), Some(Severity::Warning));
    }

    #[test]
    fn a_node_that_no_time_was_left_for_was_called_unreachable() {
        let told = |fault: &Fault, is_over| {
            let finding = silent("n", fault, is_over);
            (finding.kind(), finding.severity())
        };
        let (late, loading) = (Fault::unreachable("no answer"), Fault::refusing("LOADING"));
        let gone = (FindingKind::Unreachable, Severity::Problem);
        assert_eq!(told(&late, true), (FindingKind::NotChecked, Severity::Info));
        assert_eq!((told(&late, false), told(&loading, true)), (gone, gone));
    }

    #[test]
    fn a_cluster_that_is_down_is_a_problem() {
        let terms = Terms { place: Place::InCluster, ..ALONE };
        let found = |cluster: &str| {
            let account = answering(account("cluster_enabled:1", &[]), Question::ClusterInfo, cluster);
            severity(&server(&account, &terms), FindingKind::ClusterState)
        };
        assert_eq!((found("cluster_state:ok"), found("cluster_state:fail")), (None, Some(Severity::Problem)));
        assert_eq!(found("-NOPERM no permission"), None);
        assert_eq!(uncovered(0, "c"), None);
        assert_eq!(uncovered(7, "c").map(|finding| finding.severity()), Some(Severity::Problem));
    }
}
