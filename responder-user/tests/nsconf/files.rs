//! Whole files: what becomes of them, and that nothing is lost on the way there and back.

use std::{fmt::Write as _, fs, path::Path};

use responder_user::config::{
    self, Loaded,
    import::{Imported, Refused, Remark, Session, Weight, import},
};

use super::{folder, fragment, fragments};

/// Imports a fragment into a folder, with its master files.
pub fn imported(name: &str, into: &Path) -> Imported {
    let (text, _) = fragment(name);
    let made = import(&text, &into.join("responder.toml")).unwrap_or_else(|Refused { remarks }| {
        panic!("{name} is refused: {remarks:#?}");
    });
    for (path, text) in &made.output.files {
        fs::write(into.join(path), text).unwrap();
    }
    made
}

/// Everything that a session holds, as commands in no order.
pub fn sorted(session: &Session) -> Vec<String> {
    let mut lines = session.export();
    lines.sort();
    lines
}

fn load(text: &str, folder: &Path) -> Loaded {
    config::parse(text, &folder.join("responder.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn model(text: &str, folder: &Path) -> String {
    format!("{:#?}", load(text, folder).model)
}

/// Compares with a file, or writes it.
fn golden(name: &str, got: &str) {
    let path = folder().join(name);
    if std::env::var_os("RESPONDER_BLESS").is_some() {
        fs::write(&path, got).unwrap();
        return;
    }
    let wanted = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{name}: {error}; RESPONDER_BLESS=1 writes it"));
    assert_eq!(got, wanted, "{name}; RESPONDER_BLESS=1 writes it anew");
}

fn said(remarks: &[Remark], own: usize) -> String {
    let mut out = String::new();
    for Remark { line, weight, text } in remarks.iter().filter(|remark| remark.line <= own) {
        let place = if *line == 0 { "-".to_owned() } else { line.to_string() };
        writeln!(out, "{place:>3} {weight}: {text}").unwrap();
    }
    out
}

#[test]
fn what_becomes_of_each_fragment_and_what_is_said() {
    for name in fragments() {
        let stem = name.trim_end_matches(".conf");
        let scratch = tempfile::tempdir().unwrap();
        let (text, own) = fragment(&name);
        match import(&text, &scratch.path().join("responder.toml")) {
            Ok(made) => {
                golden(&format!("{stem}.toml"), &made.output.toml);
                for (path, text) in &made.output.files {
                    golden(&format!("{stem}.{}", path.display()), text);
                }
                golden(&format!("{stem}.notices"), &said(&made.remarks, own));
            }
            Err(Refused { remarks }) => golden(&format!("{stem}.notices"), &said(&remarks, own)),
        }
    }
}

#[test]
fn only_the_fragment_of_rejects_is_refused() {
    for name in fragments() {
        let (text, _) = fragment(&name);
        let result = import(&text, Path::new("responder.toml"));
        assert_eq!(result.is_err(), name == "H.conf", "{name}: {result:?}");
    }
}

/// The reasons of spec/netscaler.md 6.4 H, each beside its line.
#[test]
fn each_reject_has_its_reason_and_its_line() {
    let (text, _) = fragment("H.conf");
    let refused = import(&text, Path::new("responder.toml")).unwrap_err();
    for (line, reason) in
        text.lines().enumerate().filter_map(|(i, line)| Some((i + 2, line.strip_prefix("# ")?)))
    {
        let reason = reason.split(':').next().unwrap();
        let found = refused.remarks.iter().find(|remark| remark.line == line && remark.text.contains(reason));
        let found = found.unwrap_or_else(|| panic!("line {line}: {reason}: {:#?}", refused.remarks));
        let is_warning = reason.starts_with("backupLBMethod");
        assert_eq!(found.weight, if is_warning { Weight::Warning } else { Weight::Error }, "{reason}");
    }
}

/// Import, save, load, save again, and out as ns.conf and in again: one model, and one text.
#[test]
fn nothing_is_lost_on_the_way_and_back() {
    for name in fragments().into_iter().filter(|name| name != "H.conf") {
        let scratch = tempfile::tempdir().unwrap();
        let first = imported(&name, scratch.path());
        let path = scratch.path().join("responder.toml");
        let toml = &first.output.toml;

        let loaded = Session::of(toml, &path).unwrap();
        assert_eq!(sorted(&loaded), sorted(&first.session), "{name}");
        assert_eq!(loaded.output().unwrap().toml, *toml, "{name}");
        assert_eq!(loaded.output().unwrap().files, first.output.files, "{name}");

        let exported = loaded.export().join("\n");
        let again = import(&exported, &path).unwrap_or_else(|error| panic!("{name}: {error:?}\n{exported}"));
        assert_eq!(again.session.export(), loaded.export(), "{name}");
        assert_eq!(
            model(&again.output.toml, scratch.path()),
            model(toml, scratch.path()),
            "{name}\n{exported}"
        );
    }
}

/// The order of lines says nothing (spec/netscaler.md 6.2): backwards they make the same objects.
#[test]
fn binds_may_stand_before_what_they_bind() {
    for name in ["A.conf", "D.conf", "E.conf", "G.conf"] {
        let (text, _) = fragment(name);
        let back: Vec<&str> = text.lines().rev().collect();
        let path = Path::new("responder.toml");
        let (forth, back) = (import(&text, path).unwrap(), import(&back.join("\n"), path).unwrap());
        assert_eq!(sorted(&back.session), sorted(&forth.session), "{name}");
    }
}

#[test]
fn keywords_names_and_values_ignore_case() {
    let (text, _) = fragment("A.conf");
    let loud: String = text.lines().flat_map(|line| [line.to_uppercase(), "\n".to_owned()]).collect();
    let path = Path::new("responder.toml");
    let (quiet, loud) = (import(&text, path).unwrap(), import(&loud, path).unwrap());
    let folded = |imported: &Imported| imported.output.toml.to_lowercase();
    assert_eq!(folded(&loud), folded(&quiet));
}

/// 12,000 lines; the time grows as they do, not as their square.
#[test]
fn a_large_file_takes_seconds() {
    let mut text = String::from("add gslb site s 10.0.0.1\nadd gslb vserver v ANY\n");
    for i in 0..3000_u32 {
        let ip = std::net::Ipv4Addr::from_bits(0x0a01_0000 + i);
        writeln!(text, "add gslb service s{i} {ip} HTTP 80 -siteName s").unwrap();
        writeln!(text, "add gslb vserver v{i} HTTP -lbMethod ROUNDROBIN").unwrap();
        writeln!(text, "bind gslb vserver v{i} -serviceName s{i}").unwrap();
        writeln!(text, "bind gslb vserver v{i} -domainName n{i}.example.com -TTL 30").unwrap();
    }
    let begin = std::time::Instant::now();
    let made = import(&text, Path::new("responder.toml")).unwrap();
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    assert_eq!(made.output.toml.matches("[[domain]]").count(), 3000);
}
