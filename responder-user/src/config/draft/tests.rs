use super::*;

const VSERVER: Kind = Kind::Objects { table: "vserver", key: "name", beside: None };
const DOMAIN: Kind = Kind::Objects { table: "domain", key: "name", beside: Some("vserver") };

const TEXT: &str = r#"# The whole.
[listen] # where
addresses = ["192.0.2.53:53"] # ours

# The first.
[[vserver]]
name     = "www"           # never rename
method   = "round-robin"   # for now
services = [
  "hk", # first
  { name = "uk", weight = 2 },
]

[[domain]]
name = "www.example.com"
vserver = "www"

[[domain]]
name = "WWW.example.com."
vserver = "www6"

[location]
custom = [{ range = "192.0.2.0/24", location = "Asia.HK" }]
"#;

fn changed(kind: Kind, name: &str, words: &[&str]) -> Result<String, DraftError> {
    let mut draft = Draft::of(TEXT).unwrap();
    let changes = words.iter().map(|word| Change::parse(word)).collect::<Result<Vec<_>, _>>()?;
    draft.set(kind, name, &changes)?;
    Ok(draft.text())
}

#[test]
fn what_nobody_touches_stays_to_the_octet() {
    assert_eq!(Draft::of(TEXT).unwrap().text(), TEXT);
    let text = changed(VSERVER, "www", &["method=static-proximity"]).unwrap();
    assert_eq!(text, TEXT.replace("\"round-robin\"   # for", "\"static-proximity\"   # for"));
    let text = changed(Kind::Single("limits"), "", &["slip=3"]).unwrap();
    assert_eq!(text, TEXT.to_owned() + "\n[limits]\nslip = 3\n");
}

#[test]
fn lists_grow_and_shrink_in_their_layout() {
    let text = changed(VSERVER, "www", &["services+=ru", "services-=hk"]).unwrap();
    assert!(text.contains("services = [\n  { name = \"uk\", weight = 2 },\n  \"ru\",\n]"), "{text}");
    let text = changed(VSERVER, "www", &["services-=uk"]).unwrap();
    assert!(text.contains("services = [\n  \"hk\", # first\n]"), "{text}");
    let text = changed(DOMAIN, "www.example.com@www", &["backup_ip+=192.0.2.99"]).unwrap();
    assert!(text.contains("backup_ip = [\"192.0.2.99\"]"), "{text}");
    let text = changed(DOMAIN, "www.example.com@www6", &["vserver+=x"]).unwrap();
    assert!(text.contains("vserver = [\"www6\", \"x\"]"), "{text}");
    let error = changed(VSERVER, "www", &["services-=ru"]).unwrap_err().to_string();
    assert_eq!(error, "services: \"ru\" is not in the list");
    let error = changed(Kind::Single("location"), "", &["custom.x=1"]).unwrap_err().to_string();
    assert!(error.contains("custom: is no table"), "{error}");
}

#[test]
fn values_are_toml_and_else_strings() {
    let text = changed(
        VSERVER,
        "www",
        &["spillover.threshold=10", "spillover.method=connection", "types=[\"A\"]", "ecs=true", "method="],
    )
    .unwrap();
    assert!(text.contains("spillover = { threshold = 10, method = \"connection\" }"), "{text}");
    assert!(text.contains("types = [\"A\"]\necs = true"), "{text}");
    assert!(!text.contains("method   ="), "{text}");
    for word in ["method", "=x", "services+=", "services-="] {
        assert!(matches!(Change::parse(word), Err(DraftError::Change(_))), "{word}");
    }
    assert!(matches!(changed(VSERVER, "www", &["a..b=1"]), Err(DraftError::Key(_))));
}

#[test]
fn one_name_of_two_virtual_servers_needs_both_names() {
    let error = changed(DOMAIN, "www.example.com", &["ttl=9"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 tables [[domain]] have the name \"www.example.com\"; write one of www.example.com@www, www.example.com@www6"
    );
    let text = changed(DOMAIN, "www.example.com@www6", &["ttl=9"]).unwrap();
    assert!(text.contains("vserver = \"www6\"\nttl = 9"), "{text}");
    let error = changed(VSERVER, "wwww", &["ecs=true"]).unwrap_err();
    assert_eq!(error.to_string(), "no vserver \"wwww\"");
}

#[test]
fn objects_come_and_go() {
    let mut draft = Draft::of(TEXT).unwrap();
    let changes = [Change::set("method", "round-robin")];
    draft.add(VSERVER, "new", &changes).unwrap();
    draft.add(Kind::Ranges, "10.0.0.0/8", &[Change::set("location", "Africa")]).unwrap();
    assert!(matches!(draft.add(VSERVER, "www", &changes), Err(DraftError::Exists { .. })));
    let text = draft.text();
    assert!(text.contains("]\n\n[[vserver]]\nname = \"new\"\nmethod = \"round-robin\"\n"), "{text}");
    assert!(text.contains("\"Asia.HK\" }, { range = \"10.0.0.0/8\", location = \"Africa\" }]"), "{text}");
    let found: Vec<String> =
        differences(&Draft::of(TEXT).unwrap(), &draft).iter().map(|d| d.object.clone()).collect();
    assert_eq!(found, ["vserver \"new\"", "location \"10.0.0.0/8\""]);
    draft.remove(VSERVER, "new").unwrap();
    draft.remove(Kind::Ranges, "10.0.0.0/8").unwrap();
    assert_eq!(draft.text(), TEXT);
    draft.remove(DOMAIN, "www.example.com@www").unwrap();
    assert!(!draft.has(DOMAIN, "www.example.com@www") && draft.has(DOMAIN, "www.example.com"));
}

#[test]
fn differences_are_told_key_by_key_and_layout_is_none() {
    let file = Draft::of(TEXT).unwrap();
    let same = Draft::of(&TEXT.replace("method   = \"round-robin\"", "method='round-robin'")).unwrap();
    assert_eq!(differences(&file, &same), []);
    let running =
        Draft::of(&changed(VSERVER, "www", &["method=", "spillover.threshold=3"]).unwrap()).unwrap();
    let told: Vec<_> = differences(&file, &running)
        .into_iter()
        .map(|d| (d.object, d.field.unwrap(), d.file, d.running))
        .collect();
    let of = |field: &str, file: Option<&str>, running: Option<&str>| {
        ("vserver \"www\"".to_owned(), field.to_owned(), file.map(str::to_owned), running.map(str::to_owned))
    };
    assert_eq!(
        told,
        [of("method", Some("\"round-robin\""), None), of("spillover.threshold", None, Some("3"))]
    );
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

    /// Whatever is typed: no panic, the text stays TOML, nothing but the object differs, and comments of others stay.
    #[test]
    fn a_change_touches_its_object_alone(
        table in 0..4_usize,
        words in proptest::collection::vec(r#"[a-c.]{1,5}(\+=|-=|=)("x"|\[1, 2\]|\{ a = 1 \}|1|-?[a-z# "=\[]{0,6})"#, 1..5),
    ) {
        let (kind, name) = [
            (VSERVER, "www"),
            (DOMAIN, "www.example.com@www6"),
            (Kind::Single("listen"), ""),
            (Kind::Ranges, "192.0.2.0/24"),
        ][table];
        let file = Draft::of(TEXT).unwrap();
        let mut draft = file.clone();
        for word in &words {
            let Ok(change) = Change::parse(word) else { continue };
            // What is refused may have changed a part: the caller throws the draft away.
            let mut next = draft.clone();
            if next.set(kind, name, &[change]).is_ok() {
                draft = next;
            }
        }
        let text = draft.text();
        let again = Draft::of(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let objects: std::collections::BTreeSet<String> =
            differences(&file, &again).into_iter().map(|difference| difference.object).collect();
        proptest::prop_assert!(objects.len() <= 1, "{:?} by {:?}: {}", objects, words, text);
        for comment in ["# The whole.", "# where", "# ours", "# The first.", "# never rename", "# for now", "# first"] {
            proptest::prop_assert!(text.contains(comment), "{} by {:?}: {}", comment, words, text);
        }
    }
}

/// The fault: `rm limits slip` took the whole table away, whatever the key.
#[test]
fn a_key_of_a_table_is_taken_out_alone() {
    let mut draft = Draft::of("[limits]\nslip = 3\nresponses_per_second = 10\n").unwrap();
    let limits = Kind::Single("limits");
    let error = draft.remove(limits, "slop").unwrap_err().to_string();
    assert_eq!(error, "no key of limits \"slop\"");
    draft.remove(limits, "slip").unwrap();
    assert_eq!(draft.text(), "[limits]\nresponses_per_second = 10\n");
    draft.remove(limits, "responses_per_second").unwrap();
    assert_eq!(draft.text(), "");
    assert!(draft.remove(limits, "slip").is_err());
}
