//! Every vector of `tests/vectors`, on the wire: in native mode, and with XDP off.
//!
//! Compared are what is given (who, how many in one reply, TTL, return code, silence), who answered (the counters of the
//! program and the workers), and what `explain` says of it. A vector that cannot be put on the wire says so itself
//! (`off_wire`); no other is left out. Who comes first in a rotation is not compared: rotation goes on from query to
//! query and is one for each CPU.

use std::collections::BTreeSet;

use responder_user::{
    config,
    decide::Owners,
    model::{DnsName, Model, Service},
};

use super::stand::{LISTEN, Mode, Reply, Seen, Stand};
use crate::{
    is_full, say,
    support::{
        sessions,
        vectors::{self, Group, Question, Vector},
    },
};

/// Queries of one vector at least: none of the replies may differ from what is wanted.
const LEAST: usize = 6;

/// Queries of one vector at most.
const MOST: u64 = 60;

/// In the ordinary run one group in so many: each configuration lets the kernel verify the program anew.
const SAMPLE: usize = 24;

/// Likewise with XDP off, where it is a matter of milliseconds.
const SAMPLE_OFF: usize = 6;

/// Vectors that say `off_wire`. It may only become smaller, but for vectors that are new and need it.
const OFF_WIRE: usize = 44;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Whose record it is; `among` goes first where several have it.
fn who(model: &Model, data: &str, among: &[String]) -> String {
    let has = |service: &Service| {
        let in_views = service.views.iter().flat_map(|(_, addresses)| addresses);
        let addresses = service.addresses.iter().chain(in_views).any(|a| a.to_string() == data);
        let is = |name: &DnsName| name.to_string().trim_end_matches('.') == data;
        addresses
            || service.cname.as_ref().is_some_and(is)
            || service.naptr.as_ref().is_some_and(|naptr| is(&naptr.replacement))
    };
    let owners: Vec<&Service> = model.services.iter().filter(|service| has(service)).collect();
    let wanted = owners.iter().find(|service| among.contains(&service.name));
    wanted.or(owners.first()).map_or_else(|| data.to_owned(), |service| service.name.clone())
}

/// The addresses that `explain` gives.
pub fn addresses_of(explained: &serde_json::Value) -> BTreeSet<String> {
    let addresses = explained["addresses"].as_array().into_iter().flatten();
    addresses.filter_map(|address| address.as_str().map(str::to_owned)).collect()
}

/// A group that is in force.
struct Case<'a> {
    stand: &'a mut Stand,
    model: &'a Model,
    vector: &'a Vector,
    question: Question<'a>,
}

impl Case<'_> {
    fn names(&self, data: &BTreeSet<String>, among: &[String]) -> BTreeSet<String> {
        data.iter().map(|one| who(self.model, one, among)).collect()
    }

    /// A client keeps what it was given first, as the virtual server says: several queries say no more than one.
    fn is_sticky(&self) -> bool {
        let name = DnsName::parse(self.question.name).expect("a name");
        let owners = Owners::of(self.model);
        let bound = self.model.domains.iter().position(|domain| domain.name == name);
        let owner = owners.owner(owners.of_domain(bound.expect("a domain")));
        let vserver = self.model.vserver(owner.vserver);
        sessions::key(owner.vserver, vserver, self.question.client).is_some()
    }

    fn run(&mut self) -> Result<(), String> {
        match self.vector.want("gives") {
            Some("drop") => self.silent(),
            Some("refused") => self.empty(5),
            Some("nothing") => self.empty(0),
            _ => self.answered(),
        }
    }

    /// Who answers, and what `explain` says of it.
    fn lanes(&mut self, seen: &Seen) -> Result<(), String> {
        let explained = self.stand.explain(&self.question);
        let counts = (seen.xdp, seen.worker);
        let wanted = match explained["source"].as_str() {
            Some("xdp") if self.stand.mode == Mode::Native => (seen.asked, 0),
            Some("worker") => (0, seen.asked),
            other => return Err(format!("explain says it is answered in {other:?}")),
        };
        if counts != wanted {
            return Err(format!(
                "{counts:?} answers by XDP and workers, explain: {wanted:?}\n{}",
                seen.risen
            ));
        }
        for aspect in ["link", "tier", "method", "reason"] {
            if let Some(wanted) = self.vector.want(aspect).filter(|wanted| explained[aspect] != **wanted) {
                return Err(format!("{aspect} is {}, should be {wanted:?}", explained[aspect]));
            }
        }
        let explained_data = addresses_of(&explained);
        let (first, all) = (seen.first(), seen.all());
        let is_whole = [&first, &all].contains(&&explained_data) || self.is_sticky();
        if explained["records"].as_array().is_none_or(Vec::is_empty) && !is_whole {
            return Err(format!("explain gives {explained_data:?}, replies {all:?}"));
        }
        let ttls: BTreeSet<u32> = seen.replies.iter().flat_map(|reply| reply.ttls.clone()).collect();
        let explained_ttl = explained["ttl"].as_u64().map(|ttl| ttl as u32);
        if !ttls.is_empty() && ttls != explained_ttl.into_iter().collect() {
            return Err(format!("TTLs are {ttls:?}, explain says {explained_ttl:?}"));
        }
        match self.vector.want("ttl") {
            Some(wanted) if ttls != BTreeSet::from([wanted.parse().expect("seconds")]) => {
                Err(format!("TTLs are {ttls:?}, should be {wanted}"))
            }
            _ => Ok(()),
        }
    }

    fn silent(&mut self) -> Result<(), String> {
        let seen = self.stand.silence(&self.question);
        if seen.replies.is_empty() && seen.dropped == seen.asked {
            return Ok(());
        }
        Err(format!(
            "{} replies, {} dropped, should be silence\n{}",
            seen.replies.len(),
            seen.dropped,
            seen.risen
        ))
    }

    fn empty(&mut self, rcode: u16) -> Result<(), String> {
        let seen = self.stand.ask(&self.question, LEAST as u64, |_| false);
        let soa = usize::from(rcode == 0);
        let fine = |r: &&Reply| r.rcode == rcode && r.data.is_empty() && r.authority == soa && !r.tc;
        if let Some(reply) = seen.replies.iter().find(|reply| !fine(reply)) {
            return Err(format!("{reply:?}, should be return code {rcode} without records"));
        }
        if rcode == 0 && self.stand.mode == Mode::Native && self.vector.want("ttl").is_none() {
            let is_address = matches!(self.question.rtype, "A" | "AAAA");
            let is_cname = self.vector.want("gives") == Some("nothing") && !is_address;
            if !is_cname && seen.xdp != seen.asked {
                return Err(format!("NODATA is the program's\n{}", seen.risen));
            }
        }
        self.lanes(&seen)
    }

    fn answered(&mut self) -> Result<(), String> {
        let vector = self.vector;
        let hashes = vector.want("first").is_some() && vector.want("method") == Some("source-ip-hash");
        let is_hash = hashes || self.question.name.starts_with("hash.");
        let mut gives = words(vector.want("gives").unwrap_or_default());
        if is_hash {
            gives = words(vector.want("first").unwrap_or_default());
        }
        let addresses = words(vector.want("addresses").unwrap_or_default());
        let wanted: BTreeSet<String> = gives.iter().cloned().collect();
        let sticky = self.is_sticky();
        let weights: Vec<u64> = words(vector.want("weights").unwrap_or_default())
            .iter()
            .map(|w| w.parse().expect("a weight"))
            .collect();
        let most = match weights.iter().sum::<u64>() {
            // The first answer makes a session, and the next is another question.
            _ if sticky => 1,
            0 => MOST,
            sum => 4 * sum,
        };
        let model = self.model;
        let seen = self.stand.ask(&self.question, most, |replies| {
            let data: BTreeSet<String> = replies.iter().filter_map(|r| r.data.first().cloned()).collect();
            let names: BTreeSet<String> = data.iter().map(|one| who(model, one, &gives)).collect();
            let enough = sticky || (wanted.is_subset(&names) && addresses.iter().all(|a| data.contains(a)));
            weights.is_empty() && replies.len() >= LEAST && enough
        });
        for reply in &seen.replies {
            if (reply.rcode, reply.aa, reply.tc, reply.authority) != (0, true, false, 0)
                || reply.data.is_empty()
            {
                return Err(format!("{reply:?}"));
            }
        }
        let first = self.names(&seen.first(), &gives);
        if sticky && !first.is_subset(&wanted) || !sticky && !wanted.is_empty() && first != wanted {
            return Err(format!("gives {first:?}, should be {wanted:?}"));
        }
        let given: BTreeSet<String> = seen.first();
        if !addresses.is_empty() && given != addresses.iter().cloned().collect() {
            return Err(format!("addresses are {given:?}, should be {addresses:?}"));
        }
        self.counted(&seen, &gives, &weights)?;
        self.plain(&seen, is_hash)?;
        self.lanes(&seen)
    }

    /// How many records one reply has, and how often whose is first.
    fn counted(&mut self, seen: &Seen, gives: &[String], weights: &[u64]) -> Result<(), String> {
        let each: BTreeSet<usize> = seen.replies.iter().map(|reply| reply.data.len()).collect();
        let all = self.names(&seen.all(), gives).len();
        let then = words(self.vector.want("then").unwrap_or_default());
        let fine = match self.vector.want("how") {
            Some("one") => each == BTreeSet::from([1]),
            Some("all") => each == BTreeSet::from([seen.all().len()]),
            Some("best-first") => each == BTreeSet::from([gives.len() + then.len().max(all - gives.len())]),
            _ => true,
        };
        if !fine {
            return Err(format!("{each:?} records in a reply, of {:?}", seen.all()));
        }
        if self.vector.want("then").is_some() {
            let wanted: BTreeSet<String> = gives.iter().cloned().chain(then).collect();
            let all = self.names(&seen.all(), gives);
            if all != wanted {
                return Err(format!("gives in all {all:?}, should be {wanted:?}"));
            }
        }
        if weights.is_empty() || gives.is_empty() {
            return Ok(());
        }
        let sum: u64 = weights.iter().sum();
        for (name, weight) in gives.iter().zip(weights) {
            let is_first = |r: &&Reply| who(self.model, &r.data[0], gives) == *name;
            let count = seen.replies.iter().filter(is_first).count() as u64;
            let wanted = seen.asked * weight / sum;
            // Each CPU has a rotation of its own, and stands anywhere in it.
            if count.abs_diff(wanted) > 4 {
                return Err(format!("{name} came {count} times of {}, should be {wanted}", seen.asked));
            }
        }
        Ok(())
    }

    /// Addresses that take turns leave from the program, whatever `explain` says; not where a name depends on policies
    /// and on a client subnet.
    fn plain(&mut self, seen: &Seen, is_hash: bool) -> Result<(), String> {
        let is_plain = matches!(self.question.rtype, "A" | "AAAA")
            && !is_hash
            && (self.question.ecs.is_none() || self.model.policies.is_empty())
            && self.vector.want("ttl").is_none()
            && !seen.all().iter().any(|data| data.parse::<std::net::IpAddr>().is_err())
            && !self.is_rewritten(seen);
        if is_plain && self.stand.mode == Mode::Native && seen.xdp != seen.asked {
            return Err(format!("the program does not answer\n{}", seen.risen));
        }
        Ok(())
    }

    /// Rewrites have a TTL of their own.
    fn is_rewritten(&self, seen: &Seen) -> bool {
        use responder_user::model::DnsActionKind::Rewrite;
        let of = |data: &str| {
            self.model.actions.iter().any(|action| {
                matches!(&action.kind, Rewrite { addresses, .. } if addresses.iter().any(|a| a.to_string() == data))
            })
        };
        seen.all().iter().any(|data| of(data))
    }
}

/// Listed, or too slow for the ordinary run: the clock of a daemon goes as it goes.
fn is_left_out(vector: &Vector) -> bool {
    vector.off_wire.is_some() || !is_full() && vector.orders.iter().any(|order| order.starts_with("wait "))
}

/// Runs a group; a problem for each vector that fails.
fn group(stand: &mut Stand, group: &Group, done: &mut usize) -> Vec<String> {
    let listen = if group.config.contains("[listen]") { "" } else { LISTEN };
    let parsed = config::parse(&format!("{listen}{}", group.config), "responder.toml".as_ref());
    let model = parsed.unwrap_or_else(|e| panic!("{}: {e}", group.place)).model;
    if let Err(error) = stand.load(&group.config) {
        return vec![format!("{}: {error:?}", group.place)];
    }
    let mut wrong = Vec::new();
    let mut broken = false;
    for vector in &group.vectors {
        if !vector.is_after {
            stand.reset();
            broken = false;
            for vserver in model.vservers.iter().filter(|v| v.disable_primary_on_down) {
                stand.unlatch(&vserver.name);
            }
        }
        if is_left_out(vector) {
            broken = true;
            continue;
        }
        if broken && vector.is_after {
            wrong.push(format!("{}: it goes on from one that is off the wire", vector.place));
            continue;
        }
        let fresh = if vector.is_after { &[][..] } else { &group.orders[..] };
        let told = fresh.iter().chain(&vector.orders).try_for_each(|order| stand.order(order));
        stand.settle();
        let question = Question::parse(&vector.question).expect("a question");
        let outcome = told.and_then(|()| Case { stand, model: &model, vector, question }.run());
        if let Err(error) = outcome {
            wrong.push(format!("{}: {error}", vector.place));
        }
        *done += 1;
    }
    wrong
}

fn run(mode: Mode) {
    let files = vectors::all();
    let groups: Vec<&Group> = files.iter().flat_map(|file| &file.groups).collect();
    let all: Vec<&Vector> = groups.iter().flat_map(|group| &group.vectors).collect();
    let listed = all.iter().filter(|vector| vector.off_wire.is_some()).count();
    assert!(listed <= OFF_WIRE, "{listed} vectors are off the wire");
    let mut stand = Stand::new(mode);
    let step = match mode {
        _ if is_full() => 1,
        Mode::Native => SAMPLE,
        Mode::Off => SAMPLE_OFF,
    };
    let (mut done, mut wrong, mut wanted) = (0, Vec::new(), 0);
    let started = std::time::Instant::now();
    // Not the same ones in both modes.
    for of in groups.iter().skip(step / 2).step_by(step) {
        wanted += of.vectors.iter().filter(|vector| !is_left_out(vector)).count();
        wrong.extend(group(&mut stand, of, &mut done));
    }
    say!(
        "vectors on the wire, {}: {done} of {}, {listed} are listed as off the wire, {:.1?}",
        mode.word(),
        all.len(),
        started.elapsed()
    );
    assert!(wrong.is_empty(), "{} of {done}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(done, wanted, "all but the listed ones were asked");
    if mode == Mode::Native {
        assert_eq!(stand.stats()["xdp_pass_broken"], 0);
    }
    stand.stop();
}

#[test]
fn the_vector_files_are_answered_so_in_native_mode() {
    run(Mode::Native);
}

#[test]
fn the_vector_files_are_answered_so_without_xdp() {
    run(Mode::Off);
}

/// `force` of a state that the checks see too changed nothing that was published, although the order goes before a report.
#[test]
fn an_order_goes_before_a_report_though_no_check_changes() {
    let mut stand = Stand::new(Mode::Off);
    let config = "[[service]]\nname = \"a\"\naddress = \"198.51.100.1\"\n[[service]]\nname = \"b\"\naddress = \
                  \"198.51.100.2\"\n[[vserver]]\nname = \"v\"\nmethod = \"round-robin\"\nservices = [{ \
                  name = \"a\", order = 1 }, { name = \"b\", order = 2 }]\n[[domain]]\nname = \"www.example.com\"\nvserver = \"v\"\n";
    stand.load(config).expect("a configuration");
    let question = Question::parse("www.example.com A from 10.53.0.2").expect("a question");
    let mut after = |order: &str| {
        stand.order(order).expect("an order");
        let seen = stand.ask(&question, 2, |_| false);
        seen.all().into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(after("report a primary=down"), "198.51.100.2");
    assert_eq!(after("force service a up"), "198.51.100.1");
    assert_eq!(after("force service a auto"), "198.51.100.2");
    stand.stop();
}
