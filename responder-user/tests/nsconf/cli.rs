//! `responderctl import`: streams, exit codes, files.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use super::folder;

fn run(at: &Path, line: &str) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_responderctl"))
        .args(line.split(' '))
        .current_dir(at)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A folder with some of the fragments.
fn scratch() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    for name in ["A.conf", "H.conf", "records.conf"] {
        fs::copy(folder().join(name), scratch.path().join(name)).unwrap();
    }
    scratch
}

#[test]
fn the_configuration_goes_to_one_stream_and_notices_to_the_other() {
    let scratch = scratch();
    let (code, stdout, stderr) = run(scratch.path(), "import A.conf");
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stdout, fs::read_to_string(folder().join("A.toml")).unwrap());
    assert!(
        stderr.contains("A.conf:7: notice: no effect here, kept: -cltTimeout -svrTimeout -downStateFlush\n"),
        "{stderr}"
    );
}

#[test]
fn a_file_that_is_refused_leaves_nothing_behind() {
    let scratch = scratch();
    let before = fs::read_dir(scratch.path()).unwrap().count();
    for line in
        ["import H.conf", "import H.conf --output out.toml", "import nowhere.conf", "import records.conf"]
    {
        let (code, stdout, stderr) = run(scratch.path(), line);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{line}: {stderr}");
        assert!(stderr.starts_with("responderctl: "), "{line}: {stderr}");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), before, "{line}");
    }
    let (.., stderr) = run(scratch.path(), "import H.conf");
    assert!(
        stderr.starts_with("responderctl: 5 lines of the configuration cannot be taken over\n"),
        "{stderr}"
    );
    assert!(stderr.contains("\nH.conf:8: backupVServer: the backup chain is a loop: v -> v\n"), "{stderr}");
    let (.., stderr) = run(scratch.path(), "import records.conf");
    assert!(
        stderr.contains("shop.example.zone beside the configuration; say with --output FILE"),
        "{stderr}"
    );
}

#[test]
fn master_files_go_beside_the_configuration_and_over_nobody_elses() {
    let scratch = scratch();
    let zone = scratch.path().join("out/shop.example.zone");
    fs::create_dir(scratch.path().join("out")).unwrap();
    let line = "--output json import records.conf --output out/responder.toml";
    let (code, stdout, stderr) = run(scratch.path(), line);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["written"].as_array().unwrap().len(), 4, "{report}");
    assert_eq!(report["remarks"][0]["kind"], "warning");
    assert_eq!(
        fs::read_to_string(&zone).unwrap(),
        fs::read_to_string(folder().join("records.shop.example.zone")).unwrap()
    );
    assert_eq!(run(scratch.path(), "import records.conf --output=out/responder.toml").0, Some(0), "again");
    fs::write(&zone, "; mine\n").unwrap();
    let (code, _, stderr) = run(scratch.path(), "import records.conf --to out/responder.toml");
    assert_eq!(code, Some(1));
    assert!(stderr.contains("a file of somebody else is there; move it away"), "{stderr}");
    assert_eq!(fs::read_to_string(&zone).unwrap(), "; mine\n");
}
