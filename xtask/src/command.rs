//! Running other programs, with an environment that says only what we mean.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use crate::error::{Error, Result};

/// Variables that `cargo run` gives to xtask and that an inner cargo must not inherit: they describe xtask itself,
/// and build scripts that look at them would run again for nothing.
const OUTER_CARGO: [&str; 6] =
    ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_", "RUST_RECURSION_COUNT"];

/// Variables that change what a compiler makes. The eBPF build sets its own and takes none from outside.
const OUTER_COMPILER: [&str; 11] = [
    "RUSTC",
    "RUSTFLAGS",
    "RUSTDOC",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "CARGO_ENCODED_",
    "CARGO_TARGET_",
    "CARGO_BUILD_",
    "CARGO_PROFILE_",
    "CARGO_UNSTABLE_",
    "CARGO_INCREMENTAL",
];

/// The repository.
pub fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// Where the host workspace is built.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// The cargo that runs us, for the host workspace.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    forget(&mut command, &OUTER_CARGO);
    command
}

/// The cargo that runs us, without any setting of a compiler.
pub fn plain_cargo() -> Command {
    let mut command = cargo();
    forget(&mut command, &OUTER_COMPILER);
    command
}

/// A compiler that takes no setting from outside.
pub fn plain(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    forget(&mut command, &OUTER_CARGO);
    forget(&mut command, &OUTER_COMPILER);
    command
}

/// Takes every variable that begins with one of `prefixes` out of the environment of `command`.
fn forget(command: &mut Command, prefixes: &[&str]) {
    for (name, _) in std::env::vars_os() {
        if prefixes.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
}

/// Runs to the end; output goes to the terminal.
pub fn run(command: &mut Command) -> Result {
    let status = command.status().map_err(|source| Error::Start { program: program(command), source })?;
    ended(command, status)
}

/// An error unless the program was content.
fn ended(command: &Command, status: ExitStatus) -> Result {
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed { command: line(command), status, output: String::new() })
}

/// Runs a cargo that builds something. What it says goes to the terminal, without the line that it always says.
pub fn build(command: &mut Command) -> Result {
    if io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let started = command.stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|source| Error::Start { program: program(command), source })?;
    if let Some(stderr) = child.stderr.take() {
        for bytes in BufReader::new(stderr).split(b'\n').map_while(io::Result::ok) {
            let text = String::from_utf8_lossy(&bytes);
            if !(text.contains("Finished") && text.contains("profile [")) {
                eprintln!("{text}");
            }
        }
    }
    let status = child.wait().map_err(|source| Error::Start { program: program(command), source })?;
    ended(command, status)
}

/// Becomes another program; comes back only when that program does not start.
pub fn become_program(command: &mut Command) -> Error {
    let source = command.exec();
    Error::Start { program: program(command), source }
}

/// Runs to the end; output is caught, and shown only when the program fails.
pub fn quiet(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut text = String::new();
    for stream in [&output.stdout, &output.stderr] {
        for text_line in String::from_utf8_lossy(stream).lines() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {text_line}");
        }
    }
    Err(Error::Failed { command: line(command), status: output.status, output: text })
}

/// Runs to the end; what it complains about goes to the terminal, its output comes back.
pub fn caught(command: &mut Command) -> Result<String> {
    let output = output(command.stderr(Stdio::inherit()))?;
    ended(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs to the end and hands back all there is, whatever the program thinks of it.
fn output(command: &mut Command) -> Result<Output> {
    command.output().map_err(|source| Error::Start { program: program(command), source })
}

/// The file of a program, from PATH or from the folders of the administrator's programs.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let admin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(admin).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// The program of a command, for messages.
fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// The command line, for messages.
fn line(command: &Command) -> String {
    let mut text = program(command);
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}
