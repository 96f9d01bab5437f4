//! Small spaces, exhausted: every type, every word of flags, every length, every octet of some frames; and frames
//! around which the memory is filled with a pattern.

use responder_common::{counters::Counter, edns::Nsid};

use crate::{
    lab::{
        Lab,
        frame::{A, AAAA, Query, query, wire_query},
        message,
        oracle::{self, Fate},
        random::Random,
        read,
        run::{MOST, Verdict},
        world::host_v4,
    },
    open_classless,
    row::{self, Want, answer, no_data},
};

/// What `one.example.com` answers.
fn one(qtype: u16) -> Want {
    match qtype {
        A => answer(&[host_v4(1, 1)]),
        AAAA => answer(&["fd00:1::1"]),
        _ => no_data("example.com"),
    }
}

/// Runs a frame: an answer must be the one of `one.example.com`, everything else passes untouched.
fn expect(lab: &Lab, query: &Query, is_answered: bool) {
    let frame = query.build();
    let (verdict, out) = lab.runner().once(&frame);
    if is_answered {
        assert_eq!(verdict, Verdict::Tx, "{frame:02x?}");
        row::check(query, &frame, &out, &one(query.qtype).reply(query))
            .unwrap_or_else(|error| panic!("{error}\n{frame:02x?}"));
    } else {
        assert_eq!(verdict, Verdict::Pass, "{frame:02x?}");
        assert_eq!(out, frame);
    }
}

/// The counters that rose while `work` ran.
fn counted(lab: &Lab, work: impl FnOnce(&Lab)) -> Vec<(&'static str, u64)> {
    let before = lab.counters();
    work(lab);
    Lab::risen(&before, &lab.counters())
}

#[test]
fn every_type_is_answered_or_no_data() {
    let lab = open_classless("types");
    let risen = counted(&lab, |lab| {
        for qtype in 0..=u16::MAX {
            let is_answered = qtype != 0 && qtype != 41 && !(249..=255).contains(&qtype);
            let query = query("one.example.com", qtype);
            expect(lab, &if qtype % 2 == 0 { query.v6().opt(1232) } else { query }, is_answered);
        }
    });
    let wanted = [
        (Counter::AnswerA.name(), 1),
        (Counter::AnswerAaaa.name(), 1),
        (Counter::AnswerNodata.name(), 65_536 - 2 - 9),
        (Counter::PassMetaType.name(), 9),
    ];
    assert_eq!(risen, wanted);
}

#[test]
fn every_word_of_flags_is_answered_or_passed() {
    let lab = open_classless("flags");
    let risen = counted(&lab, |lab| {
        for flags in 0..=u16::MAX {
            expect(lab, &query("one.example.com", A).flags(flags), flags & 0xf800 == 0);
        }
    });
    let wanted = [
        (Counter::AnswerA.name(), 1 << 11),
        (Counter::PassResponse.name(), 1 << 15),
        (Counter::PassOpcode.name(), 15 << 11),
    ];
    assert_eq!(risen, wanted);
}

#[test]
fn every_length_but_one_passes() {
    let lab = open_classless("octets");
    let mut answered = 0;
    for opt in [false, true] {
        for len in 0..=600 {
            for octet in [0, 0xff] {
                let base = query("one.example.com", AAAA).v6();
                let base = if opt { base.opt(1232) } else { base };
                let whole = base.dns().len();
                expect(&lab, &base.edit_dns(move |d| d.resize(len, octet)), len == whole);
                answered += u32::from(len == whole);
            }
        }
    }
    assert_eq!(answered, 4);
}

/// Every value of every octet of five frames, against the oracle.
#[test]
fn every_change_of_one_octet_is_answered_right_or_passed() {
    let mut lab = open_classless("changes");
    // The oracle knows no options.
    lab.surround(Some(&|around| {
        around.cookies = None;
        around.nsid = Nsid::default();
    }));
    let cookie = [0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    let seeds = [
        query("one.example.com", A).source_port(0x0107),
        query("One.Example.Com", AAAA).v6().opt(1232),
        query("one.example.com", 65).opt_with(512, 0x8000, &cookie).tag(0x8100, 5),
        query("one.example.com", A).v6().opt_with(4096, 0, &[cookie, cookie].concat()),
        query("one.example.com", 15).padded(200, 0xaa),
    ];
    let names: Vec<Vec<u8>> =
        lab.compiled.model.domains.iter().map(|domain| domain.name.wire().to_vec()).collect();
    let mut out = Box::new([0; MOST]);
    let (mut answered, mut passed, mut dropped) = (0, 0, 0);
    for seed in seeds {
        let frame = seed.build();
        for at in 0..frame.len() {
            for value in 0..=u8::MAX {
                let mut changed = frame.clone();
                changed[at] = value;
                let fate = oracle::headers(&changed);
                let (verdict, len) = lab.runner().run(&changed, &mut out);
                let question = match &fate {
                    Fate::Message { dns, .. } => message::question(&changed[dns.clone()], message::FAST),
                    Fate::Pass | Fate::Drop => None,
                };
                let known = question.filter(|question| names.contains(&question.name));
                let Some(question) = known else {
                    let wanted = if fate == Fate::Drop { Verdict::Drop } else { Verdict::Pass };
                    assert_eq!((verdict, &out[..len]), (wanted, &changed[..]), "octet {at} = {value}");
                    (passed, dropped) =
                        (passed + u32::from(fate != Fate::Drop), dropped + u32::from(fate == Fate::Drop));
                    continue;
                };
                assert_eq!(verdict, Verdict::Tx, "octet {at} = {value}: {changed:02x?}");
                let asked = as_asked(&changed, &question);
                row::check(&asked, &changed, &out[..len], &one(question.qtype).reply(&asked))
                    .unwrap_or_else(|error| panic!("octet {at} = {value}: {error}"));
                answered += 1;
            }
        }
    }
    println!("changes of one octet: {answered} answered, {passed} passed, {dropped} dropped");
    assert!(answered > 10_000 && passed > 10_000 && dropped >= 2);
}

/// The query of a frame, as far as its reply depends on it.
fn as_asked(frame: &[u8], question: &message::Question) -> Query {
    let dns = read::message(frame).unwrap_or_else(|error| panic!("{error}"));
    let number = |at: usize| u16::from_be_bytes([dns[at], dns[at + 1]]);
    let octets = dns.to_vec();
    let mut asked = wire_query(dns[12..question.end - 4].to_vec(), question.qtype);
    asked.records = dns[question.end..].to_vec();
    asked.id(number(0)).flags(number(2)).edit_dns(move |out| out.clone_from(&octets))
}

/// Whatever lies behind the query in memory, the reply is the same: every octet of it was written.
#[test]
fn no_octet_of_a_reply_comes_from_memory() {
    let mut lab = open_classless("poison");
    let mut replies = 0;
    for name in ["one", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "mail", "empty", "v4", "v6", "down"] {
        for qtype in [A, AAAA, 16, 65] {
            for shape in 0..8 {
                let bare = || {
                    let q = query(&format!("{name}.example.com"), qtype);
                    let q = if shape & 1 == 0 { q } else { q.v6() };
                    let q = if shape & 2 == 0 { q } else { q.opt_with(1232, 0x8000, &[]) };
                    if shape & 4 == 0 { q } else { q.tag(0x8100, 9) }
                };
                let mut first = None;
                let patterns =
                    [(0, 0, 0), (1400, 0, 0), (1400, 0xaa, 0x1234), (1400, 0x55, 0xffff), (1400, 0xff, 1)];
                for (at_least, padding, checksum) in patterns {
                    let frame = bare().checksum(checksum).padded(at_least, padding).build();
                    lab.rewind();
                    let (verdict, out) = lab.runner().once(&frame);
                    if verdict != Verdict::Tx {
                        continue;
                    }
                    replies += 1;
                    let first = first.get_or_insert_with(|| out.clone());
                    assert_eq!(*first, out, "{name}, type {qtype}, padding {padding:02x?}");
                }
            }
        }
    }
    println!("{replies} replies over patterns of memory");
    assert!(replies > 1000);
}

/// 0x20: whatever the case of its letters, a name is answered, and the question stands as it was asked (T-P9).
#[test]
fn every_case_of_a_name_is_answered_with_its_own_question() {
    let lab = open_classless("case");
    let forms: u32 = if std::env::var_os("RESPONDER_FULL").is_some() { 10_000 } else { 1_000 };
    // Names that the program answers, and with letters to turn.
    let has_letters = |name: &Vec<u8>| name.iter().filter(|octet| octet.is_ascii_lowercase()).count() >= 5;
    let mut names: Vec<Vec<u8>> = lab.compiled.names.fast.iter().map(|(n, _)| n.wire().to_vec()).collect();
    names.retain(|name| {
        let (verdict, _) = lab.runner().once(&wire_query(name.clone(), A).build());
        has_letters(name) && verdict == Verdict::Tx
    });
    names.truncate(100);
    assert_eq!(names.len(), 100);
    let (mut random, mut out) = (Random(0x0020), Box::new([0; MOST]));
    let mut answered = 0;
    for name in &names {
        for _ in 0..forms {
            let mut form = name.clone();
            let mut at = 0;
            while form[at] != 0 {
                let end = at + 1 + usize::from(form[at]);
                for octet in &mut form[at + 1..end] {
                    if octet.is_ascii_lowercase() && random.once_in(2) {
                        *octet = octet.to_ascii_uppercase();
                    }
                }
                at = end;
            }
            let frame = wire_query(form.clone(), A).build();
            let (verdict, len) = lab.runner().run(&frame, &mut out);
            assert_eq!(verdict, Verdict::Tx, "{form:02x?}");
            let message = read::message(&out[..len]).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(message[12..12 + form.len()], form[..], "the question is not the one that was asked");
            answered += 1;
        }
    }
    println!("{answered} forms of {} names answered", names.len());
}
