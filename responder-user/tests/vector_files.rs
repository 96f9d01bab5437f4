//! The vectors of the specification and those derived from its source documents: `vectors/*.toml`, which say what is
//! configured, told and asked in the words of operators, and what must be answered. Here they are decided; `e2e/wire`
//! puts the same files on the wire.
//!
//! ```toml
//! about = "what this file is about, with its source"
//! base = '''configuration that all groups share'''
//!
//! [[group]]
//! config = '''and what this group adds'''
//! do = ["commands of responderctl that come first; or wait DURATION"]
//! ask = "www.example.com A from 10.53.0.2"     # where a vector has no question of its own
//!
//! [[group.vector]]
//! source = "document and place"                # where the file does not say it already
//! down = "services that are forced down"
//! do = ["further commands"]
//! after = true                                 # goes on from the vector before; else the state is fresh
//! ask = "…"                                     # with `ecs PREFIX` behind it, the query carries a client subnet
//! gives = "services that share the load, or addresses and aliases of none; nothing, drop, refused, not-ours"
//! first = "which of them comes first"
//! then = "what follows with multiple_ip_response"
//! off_wire = "why this vector cannot be put on the wire"
//! # and where they matter: how (one, all, best-first), link, tier, method, reason, code (lbrrreason), ttl, weights, addresses
//! ```

mod support;

use responder_user::decide::{Give, Outcome};
use support::{
    stage::{Answer, Stage},
    vectors::{self, Vector, VectorFile},
};

fn run(stage: &mut Stage, commands: &[String]) -> Result<(), String> {
    for command in commands {
        stage.run(command).map_err(|e| format!("{command}: {e}"))?;
    }
    Ok(())
}

/// What a vector says of one aspect, and what there is.
fn aspects(stage: &Stage, answer: &Answer) -> Vec<(&'static str, String)> {
    let decision = &answer.decision;
    let (how, weights) = match &decision.outcome {
        Outcome::Answer(pool) => {
            let weights = pool.rotate.iter().map(|m| m.weight.to_string()).collect::<Vec<_>>().join(" ");
            (Some(pool.give), weights)
        }
        Outcome::Records(pool) => (Some(pool.give), String::new()),
        _ => (None, String::new()),
    };
    let addresses = match &decision.outcome {
        Outcome::Answer(pool) => {
            pool.rotate.iter().map(|m| m.address.to_string()).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    };
    let how = match how {
        Some(Give::One) => "one",
        Some(Give::All) => "all",
        Some(Give::BestFirst) => "best-first",
        None => "-",
    };
    vec![
        ("gives", stage.gives(&decision.outcome)),
        ("first", answer.first.clone().unwrap_or_default()),
        ("then", stage.then(&decision.outcome)),
        ("how", how.to_owned()),
        ("link", stage.model.vserver(decision.link).name.clone()),
        ("tier", decision.tier.to_string()),
        ("method", decision.method.to_string()),
        ("reason", decision.reason.to_string()),
        ("code", decision.reason.lbrrreason().map_or_else(String::new, |code| code.to_string())),
        ("ttl", decision.ttl.map_or_else(String::new, |ttl| ttl.to_string())),
        ("weights", weights),
        ("addresses", addresses),
    ]
}

fn check(stage: &mut Stage, vector: &Vector) -> Result<(), String> {
    run(stage, &vector.orders)?;
    let answer = stage.ask(&vector.question)?;
    for (key, got) in aspects(stage, &answer) {
        if let Some(wanted) = vector.want(key).filter(|wanted| *wanted != got) {
            let steps = answer.decision.steps.iter();
            let steps: Vec<String> =
                steps.map(|s| format!("    {:8} {} ({})", s.step, s.outcome, s.reason)).collect();
            return Err(format!("{key} is {got:?}, should be {wanted:?}\n{}", steps.join("\n")));
        }
    }
    Ok(())
}

/// Runs one file. Gives how many vectors it has, and what is wrong with them.
fn file(file: &VectorFile) -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for group in &file.groups {
        let fresh = || {
            let mut stage = Stage::of(&group.config).unwrap_or_else(|e| panic!("{}: {e}", group.place));
            run(&mut stage, &group.orders).unwrap_or_else(|e| panic!("{}: {e}", group.place));
            stage
        };
        let mut stage = fresh();
        for vector in &group.vectors {
            count += 1;
            if !vector.is_after {
                stage = fresh();
            }
            if let Err(error) = check(&mut stage, vector) {
                wrong.push(format!("{}: {error}", vector.place));
            }
        }
    }
    (count, wrong)
}

#[test]
fn every_vector_is_decided_as_it_says() {
    let (mut count, mut wrong) = (0, Vec::new());
    for vectors in &vectors::all() {
        let (some, problems) = file(vectors);
        println!("{}: {some} vectors", vectors.name);
        count += some;
        wrong.extend(problems);
    }
    assert!(wrong.is_empty(), "{} of {count} vectors:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 200, "only {count} vectors");
}
