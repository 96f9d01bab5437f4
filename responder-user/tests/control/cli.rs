//! The built binary: exit codes, what goes to which stream, completions.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use crate::fake::{Daemon, golden};

fn binary(socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_responderctl"));
    command.arg("--socket").arg(socket);
    command
}

fn run(socket: &Path, line: &str) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = binary(socket).args(line.split(' ')).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn commands_end_with_0_and_refusals_with_1() {
    let daemon = Daemon::start();
    let run = |line: &str| run(daemon.socket(), line);
    for line in ["status", "show service", "explain www.example.com", "stats", "events", "completions bash"] {
        let (code, stdout, stderr) = run(line);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{line}");
        assert!(!stdout.is_empty(), "{line}");
        assert!(!stdout.contains('\x1b'), "{line}: no colour unless a terminal");
    }
    assert_eq!(run("disable service uk"), (Some(0), "service uk disabled\n".to_owned(), String::new()));
    let (_, services, _) = run("show service");
    assert_eq!(services.lines().count(), 8, "one record a line, no header");
    assert!(services.contains("uk\tDISABLED\t"), "{services}");
    let refusal = "responderctl: no service \"kk\"; `responderctl show service` lists them\n";
    for line in ["disable service kk", "show service kk", "--output json show service kk"] {
        assert_eq!(run(line), (Some(1), String::new(), refusal.to_owned()), "{line}");
    }
    let (code, stdout, stderr) = run("reload");
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert_eq!(
        stderr,
        "responderctl: responder.toml has 2 errors; the old configuration stays\n\
         responder.toml:3:1: unknown key \"servr\"\nsecond\n"
    );
}

#[test]
fn the_running_configuration_is_changed_and_compared() {
    let daemon = Daemon::start();
    let run = |line: &str| run(daemon.socket(), line);
    let done = |text: &str| (Some(0), text.to_owned(), String::new());
    assert_eq!(run("diff"), done("# responder.toml and the running configuration say the same\n"));
    let set = "set vserver www method=round-robin services-=hk ecs=true";
    assert_eq!(run(set), done(&format!("{set}\n")));
    assert_eq!(run("set limits slip=3"), done("set limits slip=3\n"));
    assert_eq!(run("add service new address=192.0.2.9").0, Some(0));
    assert_eq!(run("rm service zmb").0, Some(0));
    golden("diff.golden", &run("diff").1);
    let (_, json, _) = run("diff --output json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["differences"].as_array().unwrap().len(), 6, "{json}");
    let (code, stdout, stderr) = run("set vserver wwx method=round-robin");
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert_eq!(stderr, "responderctl: no vserver \"wwx\"; did you mean \"www\"?\n");
    assert_eq!(run("set vserver www method").0, Some(1));
    assert_eq!(run("set nonsense x y=1").0, Some(2));
    assert_eq!(run("save").0, Some(1));
    assert_eq!(run("save --force"), done("saved to responder.toml\n"));
}

#[test]
fn commands_of_netscaler_end_with_done_or_error() {
    let daemon = Daemon::start();
    let ns = |args: &[&str]| {
        let Output { status, stdout, stderr } =
            binary(daemon.socket()).arg("ns").args(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    };
    let (code, stdout, stderr) = ns(&["show gslb vserver www"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.starts_with("1)\twww - HTTP\tState: UP\n") && stdout.ends_with("\n Done\n"), "{stdout}");
    assert_eq!(ns(&["-  show gslb vserver www"]).0, Some(0), "the documents print a dash in front");
    let (code, stdout, stderr) = ns(&["show gslb vserver nobody"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert_eq!(stderr, "ERROR: No such resource [name, nobody]\n");
    let (_, stdout, _) = ns(&["show gslb service uk", "--output", "json"]);
    let json: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&json["errorcode"], &json["gslbservice"][0]["servicename"]), (&0.into(), &"uk".into()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("batch.conf");
    std::fs::write(&file, "# a comment\n\ndisable gslb service hk\nfrobnicate hk\nenable gslb service hk\n")
        .unwrap();
    let (code, stdout, stderr) = ns(&["--file", file.to_str().unwrap()]);
    assert_eq!(code, Some(1), "one of them failed");
    assert_eq!(
        stdout,
        "> disable gslb service hk\n Done\n> frobnicate hk\n> enable gslb service hk\n Done\n"
    );
    assert_eq!(stderr, format!("{}:4: ERROR: No such command [frobnicate]\n", file.display()));
    assert_eq!(ns(&[]).0, Some(2));
}

/// `load x foo=1` was taken without a word although nothing looked at foo.
#[test]
fn a_figure_that_nothing_looks_at_is_taken_with_a_word() {
    let daemon = Daemon::start();
    let (code, stdout, _) = run(daemon.socket(), "load uk connections=1 foo=1");
    assert_eq!(code, Some(0));
    assert_eq!(
        stdout,
        "service uk load taken\nwarning: \"foo\": nothing looks at it; figures are connections, bandwidth, packets, \
         response_time, services, weights, and NAME=VALUE for each metric of the load monitors of service uk (it has none)\n"
    );
    let (_, stdout, _) = run(daemon.socket(), "load uk connections=1");
    assert_eq!(stdout, "service uk load taken\n");
    let (_, help, _) = run(daemon.socket(), "load --help");
    assert!(help.contains("a metric of a load monitor by its name (cpu=80)"), "{help}");
}

#[test]
fn a_file_is_checked_without_a_daemon() {
    let nowhere = Path::new("/nonexistent/control.sock");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("responder.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let (code, stdout, stderr) = run(nowhere, &format!("check {}", file.display()));
        (code, stdout.replace(&file.display().to_string(), "FILE"), stderr)
    };
    let good = "[listen]\naddresses = [\"127.0.0.1:5300\"]\n";
    assert_eq!(check(good), (Some(0), "FILE: valid\n".to_owned(), String::new()));
    let (code, stdout, _) = check(&format!("{good}[metrics]\nlisten = \"127.0.0.1:9153\"\n"));
    assert_eq!((code, stdout.lines().count()), (Some(0), 2), "{stdout}");
    assert!(stdout.starts_with("warning: FILE:"), "{stdout}");
    let (code, stdout, _) = check("[listne]\n");
    assert_eq!(code, Some(1));
    assert!(stdout.contains("FILE:1:2: listne"), "{stdout}");
}

#[test]
fn wrong_usage_ends_with_2() {
    let nowhere = Path::new("/nonexistent/control.sock");
    for line in ["", "sho", "show", "frobnicate hk", "explain", "force service hk sideways", "status --bogus"]
    {
        let (code, stdout, stderr) = run(nowhere, line);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{line}");
        assert!(!stderr.is_empty(), "{line}");
    }
    assert_eq!(run(nowhere, "--version").0, Some(0));
}

#[test]
fn a_daemon_that_is_not_there_is_one_clear_line() {
    let (code, stdout, stderr) = run(Path::new("/nonexistent/control.sock"), "status");
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert_eq!(
        stderr,
        "responderctl: cannot reach responderd at /nonexistent/control.sock: No such file or directory; \
         is it running, and is --socket right?\n"
    );
}

#[test]
fn json_is_json_with_every_command() {
    let daemon = Daemon::start();
    for line in ["status", "show vserver www", "explain www.example.com A -v", "events -n 1", "stats"] {
        let (code, stdout, _) = run(daemon.socket(), &format!("{line} --output json"));
        assert_eq!(code, Some(0), "{line}");
        serde_json::from_str::<Value>(&stdout).unwrap_or_else(|e| panic!("{line}: {e}\n{stdout}"));
    }
}

#[test]
fn followers_and_watchers_print_as_it_happens() {
    let daemon = Daemon::start();
    let start = |line: &str| {
        let mut command = binary(daemon.socket());
        let mut child = command.args(line.split(' ')).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    let (mut child, mut lines) = start("events --follow --kind state --output json");
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["object"], "service hk", "the past comes first");
    run(daemon.socket(), "disable service ru");
    assert_eq!(next()["object"], "service ru");
    child.kill().unwrap();
    child.wait().unwrap();
    let (mut child, mut lines) = start("stats --watch --output json");
    let rates = serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert!(rates["rates"]["xdp_answer_a"].as_f64().unwrap() > 0.0, "{rates}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn help_names_every_command_and_field() {
    let (_, help, _) = run(Path::new("/x"), "--help");
    let (_, show, _) = run(Path::new("/x"), "show --help");
    golden("help.golden", &format!("{help}\n{show}"));
}
