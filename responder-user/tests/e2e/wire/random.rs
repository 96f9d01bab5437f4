//! Random configurations, states and clients: what `explain` says is what is answered, and by whom.

use std::collections::BTreeSet;

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use responder_user::{
    decide::{AddressState, ServiceState, Snapshot},
    model::Model,
};
use serde_json::Value;

use super::{
    stand::{Mode, Seen, Stand},
    vectors::addresses_of,
};
use crate::{
    is_full, say,
    support::{
        random::{client, rich_case},
        vectors::Question,
        written,
    },
};

/// Queries of one question at most: a rotation has up to 1024 places, seldom more than a few.
const MOST: u64 = 1100;

/// The orders that tell a daemon what a snapshot says.
fn orders(model: &Model, snapshot: &Snapshot) -> Vec<String> {
    let mut out = Vec::new();
    for (service, state) in model.services.iter().zip(&snapshot.services) {
        let ServiceState { admin, forced, addresses, load, report, .. } = state;
        let name = &service.name;
        if !admin {
            out.push(format!("disable service {name}"));
        }
        let all_down = !addresses.is_empty() && addresses.iter().all(|a| *a == AddressState::Down);
        if let Some(up) = forced.or(all_down.then_some(false)) {
            out.push(format!("force service {name} {}", if up { "up" } else { "down" }));
        }
        if !load.is_empty() {
            let figures = load.iter().map(|(name, figure)| format!(" {name}={}", figure.value));
            out.push(format!("load {name}{}", figures.collect::<String>()));
        }
        for (key, value, yes, no) in [
            ("primary", report.primary_up, "up", "down"),
            ("effective", report.effective_up, "up", "down"),
            ("threshold", report.above, "above", "below"),
        ] {
            if let Some(value) = value {
                out.push(format!("report {name} {key}={}", if value { yes } else { no }));
            }
        }
    }
    let vservers = model.vservers.iter().zip(&snapshot.vservers);
    out.extend(vservers.filter(|(_, s)| !s.enabled).map(|(v, _)| format!("disable vserver {}", v.name)));
    out
}

/// What the wire says of an explanation.
fn hold(stand: &mut Stand, question: &Question<'_>, explained: &Value) -> Result<(), String> {
    let told = addresses_of(explained);
    let give = explained["give"].as_str();
    let seen = match explained["rcode"].as_str() {
        None => {
            let seen = stand.silence(question);
            let fine = seen.replies.is_empty() && seen.dropped == seen.asked;
            return if fine { Ok(()) } else { Err(format!("should be silence: {seen:?}")) };
        }
        Some(_) => stand.ask_until_silence(question, MOST, |replies| {
            let given: BTreeSet<&String> = replies.iter().flat_map(|reply| &reply.data).collect();
            replies.len() >= 3 && given.len() >= told.len()
        }),
    };
    if seen.asked != seen.replies.len() as u64 {
        return Err(format!("no reply\n{}", seen.risen));
    }
    let rcode = match explained["rcode"].as_str() {
        Some("NOERROR") => 0,
        Some("REFUSED") => 5,
        other => return Err(format!("{other:?} is no return code of a decision")),
    };
    if seen.replies.iter().any(|reply| reply.rcode != rcode || reply.tc) {
        return Err(format!("{:?}", seen.replies));
    }
    let is_alias = explained["records"].as_array().is_some_and(|records| !records.is_empty());
    if !is_alias && seen.all() != told {
        return Err(format!("replies give {:?}", seen.all()));
    }
    let each: BTreeSet<usize> = seen.replies.iter().map(|reply| reply.data.len()).collect();
    let wanted = match give {
        Some("one") => 1,
        _ if is_alias => 1,
        _ => told.len(),
    };
    if each != BTreeSet::from([wanted]) {
        return Err(format!("{each:?} records in a reply"));
    }
    lanes_and_ttl(&seen, explained)
}

fn lanes_and_ttl(seen: &Seen, explained: &Value) -> Result<(), String> {
    let lanes = if explained["source"] == "xdp" { (seen.asked, 0) } else { (0, seen.asked) };
    if (seen.xdp, seen.worker) != lanes {
        return Err(format!("{:?} answers by XDP and workers\n{}", (seen.xdp, seen.worker), seen.risen));
    }
    let ttls: BTreeSet<u64> =
        seen.replies.iter().flat_map(|r| r.ttls.iter().map(|ttl| u64::from(*ttl))).collect();
    if !ttls.is_empty() && ttls != explained["ttl"].as_u64().into_iter().collect() {
        return Err(format!("TTLs are {ttls:?}"));
    }
    Ok(())
}

fn run(mode: Mode, models: usize, questions: usize) {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[if mode == Mode::Native { 7 } else { 8 }; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut stand = Stand::new(mode);
    let (mut loaded, mut asked, mut by_xdp, mut refused) = (0, 0, 0, 0);
    while loaded < models {
        let (model, snapshot, ..) = rich_case(false).new_tree(&mut runner).expect("a case").current();
        let config = written::blocks(&model).join("\n");
        if stand.load(&config).is_err() {
            refused += 1;
            assert!(refused < 10 + models, "too many random configurations are refused:\n{config}");
            continue;
        }
        loaded += 1;
        let orders = orders(&model, &snapshot);
        for order in &orders {
            stand.order(order).unwrap_or_else(|error| panic!("{error}\n{config}"));
        }
        stand.settle();
        for i in 0..questions {
            let any = client().prop_filter("an address of the bed", |address| {
                let text = address.to_string();
                (text.starts_with("10.0.") || text.starts_with("2001:db8::")) && text != "2001:db8::53"
            });
            let client = any.new_tree(&mut runner).expect("a client").current();
            let name = model.domains[i % model.domains.len()].name.to_string();
            let question = Question {
                name: name.trim_end_matches('.'),
                rtype: if i % 2 == 0 { "A" } else { "AAAA" },
                client,
                ecs: None,
            };
            let explained = stand.explain(&question);
            asked += 1;
            by_xdp += usize::from(explained["source"] == "xdp");
            if let Err(error) = hold(&mut stand, &question, &explained) {
                let Question { name, rtype, client, .. } = question;
                panic!(
                    "{name} {rtype} from {client}: {error}\n{explained:#}\n{config}\n{}",
                    orders.join("\n")
                );
            }
        }
        for vserver in model.vservers.iter().filter(|v| v.disable_primary_on_down) {
            stand.unlatch(&vserver.name);
        }
    }
    say!(
        "explain and the wire, {}: {asked} questions to {loaded} random configurations ({refused} were refused), {by_xdp} \
         answered by XDP",
        mode.word()
    );
    stand.stop();
}

#[test]
fn what_explain_says_is_what_the_program_answers() {
    let (models, questions) = if is_full() { (25, 40) } else { (1, 20) };
    run(Mode::Native, models, questions);
}

#[test]
fn what_explain_says_is_what_workers_answer() {
    let (models, questions) = if is_full() { (25, 40) } else { (4, 10) };
    run(Mode::Off, models, questions);
}
