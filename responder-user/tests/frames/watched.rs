//! Whether anybody looks or not, a packet gets the same: sampling, timing and counting change no octet and no verdict.

use responder_common::sample::{ANSWER, Filter, Head, QUERY, VERDICT};

use crate::{
    lab::{
        frame::{A, AAAA, query},
        run::Verdict,
    },
    open, open_classless, row, rows,
};

#[test]
fn every_row_holds_while_packets_are_told_and_timed() {
    let mut lab = open("watched");
    lab.writer().sample(Some(&Filter::ALL)).unwrap();
    lab.writer().time(true);
    let before = lab.writer().tally().unwrap();
    let rows = rows();
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| row::run(&mut lab, row).err().map(|error| format!("{}: {error}", row.rule)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} rows are wrong:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    let after = lab.writer().tally().unwrap();
    let timed = after.latency.iter().sum::<u64>() - before.latency.iter().sum::<u64>();
    assert_eq!(timed, rows.len() as u64, "each run is timed once");
}

#[test]
fn a_query_and_what_became_of_it_are_told_as_they_were() {
    let mut lab = open_classless("told");
    let mut ring = lab.writer().samples().unwrap();
    let mut told = |lab: &mut crate::lab::Lab, frame: &[u8]| {
        let (verdict, out) = lab.runner().once(frame);
        let mut records = Vec::new();
        while let Some(record) = ring.next() {
            let (head, rest) = record.split_at(size_of::<Head>());
            let head: Head = bytemuck::pod_read_unaligned(head);
            records.push((head, rest[..(head.captured as usize).min(rest.len())].to_vec()));
        }
        (verdict, out, records)
    };
    let answered = query("m8.example.com", AAAA).tag(0x8100, 5).opt(1232).build();
    let passed = query("nobody.example.com", A).v6().build();
    let foreign = query("one.example.com", A).to("192.0.2.99").build();
    assert!(told(&mut lab, &answered).2.is_empty(), "off");
    lab.writer().sample(Some(&Filter::ALL)).unwrap();
    let (verdict, out, records) = told(&mut lab, &answered);
    assert_eq!((verdict, records.len()), (Verdict::Tx, 2));
    assert_eq!((records[0].0.kind, &records[0].1), (QUERY, &answered));
    assert_eq!((records[1].0.kind, &records[1].1), (ANSWER, &out));
    assert_eq!(records[0].0.number, records[1].0.number);
    let (verdict, _, records) = told(&mut lab, &passed);
    assert_eq!((verdict, records.len()), (Verdict::Pass, 2));
    assert_eq!((records[0].0.kind, &records[0].1), (QUERY, &passed));
    assert_eq!((records[1].0.kind, records[1].0.captured), (VERDICT, 0));
    assert!(told(&mut lab, &foreign).2.is_empty(), "what is not for us is nobody's business");
    // Without answers, and one of two.
    lab.writer().sample(Some(&Filter { every: 2, answers: 0, ..Filter::ALL })).unwrap();
    let counts: Vec<usize> = (0..4).map(|_| told(&mut lab, &answered).2.len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 2, "{counts:?}");
    lab.writer().sample(None).unwrap();
    assert!(told(&mut lab, &answered).2.is_empty(), "off again");
}

#[test]
fn a_full_ring_buffer_loses_samples_and_no_answer() {
    let mut lab = open_classless("full-ring");
    lab.writer().sample(Some(&Filter::ALL)).unwrap();
    let frame = query("one.example.com", A).build();
    for _ in 0..2000 {
        assert_eq!(lab.runner().once(&frame).0, Verdict::Tx);
    }
    let lost = lab.writer().tally().unwrap().lost;
    assert!((2000..4000).contains(&lost), "{lost} of 4000 records found no room");
}

#[test]
fn answers_are_counted_by_type_and_zone() {
    let mut lab = open_classless("kinds");
    let before = lab.writer().tally().unwrap();
    for (name, qtype, count) in [
        ("one.example.com", A, 3),
        ("www.other.org", AAAA, 2),
        ("own.net", 16, 4),
        ("one.example.com", 9999, 1),
    ] {
        for _ in 0..count {
            assert_eq!(lab.runner().once(&query(name, qtype).build()).0, Verdict::Tx);
        }
    }
    lab.runner().once(&query("nobody.example.com", A).build());
    let after = lab.writer().tally().unwrap();
    let risen = |before: &[u64], after: &[u64]| -> Vec<(usize, u64)> {
        let pairs = before.iter().zip(after).enumerate();
        pairs.filter(|(_, (b, a))| a != b).map(|(i, (b, a))| (i, a - b)).collect()
    };
    assert_eq!(risen(&before.types, &after.types), [(1, 3), (16, 4), (28, 2), (127, 1)]);
    let zones: u64 = risen(&before.zones, &after.zones).iter().map(|(_, n)| n).sum();
    assert_eq!(zones, 10);
    assert_eq!(risen(&before.zones, &after.zones).len(), 3, "example.com, other.org, and a name of its own");
}
