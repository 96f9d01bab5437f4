//! A whole ns.conf: two passes, for what refers to an object may stand before it (spec/netscaler.md 6.2).

use std::path::Path;

use super::{
    Output, Remark, Session, Weight, check, execute,
    execute::Done,
    expand, foreign_policy,
    kind::Op,
    parse::{Command, Mode, Parsed, Remarks, parse},
    remark, repair,
};

/// A file that was taken over.
#[derive(Debug)]
pub struct Imported {
    /// The objects; [`Session::output`] made `output` of them.
    pub session: Session,
    /// The configuration.
    pub output: Output,
    /// Everything that is to be said, by line.
    pub remarks: Vec<Remark>,
}

/// A file that was not taken over.
#[derive(Debug, thiserror::Error)]
#[error("{} of the configuration cannot be taken over", count(.remarks))]
pub struct Refused {
    /// Everything that is to be said, by line; one error at least.
    pub remarks: Vec<Remark>,
}

fn count(remarks: &[Remark]) -> String {
    match remarks.iter().filter(|remark| remark.weight == Weight::Error).count() {
        1 => "1 line".to_owned(),
        n => format!("{n} lines"),
    }
}

/// Takes a saved configuration over. `path` is where the result will stand: location files are looked up from there.
pub fn import(text: &str, path: &Path) -> Result<Imported, Refused> {
    let mut session = Session::new(path);
    let mut remarks: Vec<Remark> = Vec::new();
    let mut commands: Vec<(usize, Command)> = Vec::new();
    for (line, typed) in text.lines().enumerate().map(|(i, typed)| (i + 1, typed)) {
        if let Err(text) = read(&mut session, line, typed, &mut commands, &mut remarks) {
            remarks.push(remark(line, Weight::Error, text));
        }
    }
    // Objects first, unless the file takes some of them away again.
    if !commands.iter().any(|(_, command)| matches!(command.op, Some(Op::Rm | Op::Rename | Op::Clear))) {
        commands.sort_by_key(|(_, command)| match command.op {
            Some(Op::Add) => 0,
            Some(Op::Bind) => 1,
            _ => 2,
        });
    }
    for (line, command) in commands {
        match execute::execute(&mut session.store, Mode::File, &command, line) {
            Ok(Done::Changed) => {}
            Ok(Done::Show) => {
                remarks.push(remark(line, Weight::Notice, "prints nothing: this is a file".to_owned()));
            }
            Ok(Done::Notice(text)) => remarks.push(remark(line, Weight::Notice, text)),
            Err(text) => remarks.push(remark(line, Weight::Error, text)),
        }
    }
    let found = check::check(&session.store);
    remarks.extend(found.errors.into_iter().map(|t| remark(t.line, Weight::Error, t.text)));
    remarks.extend(found.warnings.into_iter().map(|t| remark(t.line, Weight::Warning, t.text)));
    let output = match session.output() {
        Ok(output) => Some(output),
        Err(error) => {
            remarks.push(remark(0, Weight::Error, error.to_string()));
            None
        }
    };
    remarks.extend(output.iter().flat_map(|output| output.remarks.clone()));
    // What is said of the whole comes last.
    remarks.sort_by_key(|remark| (remark.line == 0, remark.line));
    remarks.dedup();
    match output.filter(|_| !remarks.iter().any(|remark| remark.weight == Weight::Error)) {
        Some(output) => Ok(Imported { session, output, remarks }),
        None => Err(Refused { remarks }),
    }
}

/// One line to commands.
fn read(
    session: &mut Session,
    line: usize,
    typed: &str,
    commands: &mut Vec<(usize, Command)>,
    remarks: &mut Vec<Remark>,
) -> Result<(), String> {
    let mut warnings = Vec::new();
    // A broken line of a program's output is no broken command.
    let tokens = match repair::tokens(typed, &mut warnings) {
        Ok(tokens) => tokens,
        Err(error) if is_command(typed) => return Err(error.to_string()),
        Err(_) => {
            remarks.push(remark(line, Weight::Notice, "is no command".to_owned()));
            return Ok(());
        }
    };
    if tokens.is_empty() {
        return Ok(());
    }
    let is_prompt = [" Done", "Done", "<!--NeedCopy-->"].contains(&typed.trim_end());
    if is_prompt {
        remarks.push(remark(line, Weight::Notice, "is no command".to_owned()));
        return Ok(());
    }
    let mut of_line = Remarks { warnings, ..Remarks::default() };
    let mut result = Ok(());
    for tokens in expand(&tokens)? {
        let policy = foreign_policy(&tokens);
        match parse(Mode::File, &tokens, &mut of_line) {
            Ok(Parsed::Command(command)) => commands.push((line, command)),
            Ok(Parsed::Notice(text)) => {
                session.store.foreign_policies.extend(policy);
                // What was repaired in a line that is no command is of no interest.
                of_line.warnings.clear();
                remarks.push(remark(line, Weight::Notice, text));
            }
            Err(text) => result = Err(text),
        }
    }
    remarks.extend(of_line.said(line));
    result
}

fn is_command(typed: &str) -> bool {
    let first = typed.trim_start_matches(['>', ' ', '\t']).split([' ', '\t']).next().unwrap_or_default();
    super::kind::OPS.iter().any(|(word, _)| word.eq_ignore_ascii_case(first))
}
