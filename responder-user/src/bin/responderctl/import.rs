//! `responderctl import`: a saved NetScaler configuration to a `responder.toml`. Needs no daemon.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use responder_user::{
    config::{
        self, ConfigError,
        import::{self, Output as Made, Remark, Weight},
    },
    control::{cli::Output, render},
};
use serde_json::json;

use super::Failure;

/// Takes `file` over; the configuration goes to `to`, or to standard output. What is to be said goes to standard error,
/// with `--output json` to standard output if the configuration goes elsewhere.
pub fn import(style: Output, file: &Path, to: Option<&Path>) -> Result<(), Failure> {
    let text =
        fs::read(file).map_err(|error| Failure::Say(format!("{}: {error}", file.display()), Vec::new()))?;
    let text = String::from_utf8_lossy(&text);
    let target = to.unwrap_or(Path::new("responder.toml"));
    let imported = match import::import(&text, target) {
        Ok(imported) => imported,
        Err(refused) => {
            let details = refused.remarks.iter().map(|remark| said(file, remark)).collect();
            return Err(Failure::Say(refused.to_string(), details));
        }
    };
    let Some(to) = to else {
        if let Some((path, _)) = imported.output.files.first() {
            let text = format!(
                "the DNS records need {} beside the configuration; say with --output FILE where it is to be",
                path.display()
            );
            return Err(Failure::Say(text, Vec::new()));
        }
        check(&imported.output, target)?;
        tell(file, &imported.remarks);
        io::stdout().write_all(imported.output.toml.as_bytes())?;
        return Ok(());
    };
    let written = write(&imported.output, to)?;
    match style {
        Output::Text => {
            tell(file, &imported.remarks);
            for path in &written {
                writeln!(io::stdout(), "wrote {}", render::clean(&path.display().to_string()))?;
            }
        }
        Output::Json => {
            let remark = |r: &Remark| json!({ "line": r.line, "kind": r.weight.to_string(), "text": r.text });
            let remarks: Vec<_> = imported.remarks.iter().map(remark).collect();
            let text = render::pretty(&json!({ "written": written, "remarks": remarks }));
            io::stdout().write_all(text.as_bytes())?;
        }
    }
    Ok(())
}

fn said(file: &Path, remark: &Remark) -> String {
    let Remark { line, weight, text } = remark;
    let place = if *line == 0 { file.display().to_string() } else { format!("{}:{line}", file.display()) };
    match weight {
        Weight::Error => format!("{place}: {text}"),
        _ => format!("{place}: {weight}: {text}"),
    }
}

fn tell(file: &Path, remarks: &[Remark]) {
    for remark in remarks {
        eprintln!("{}", render::clean(&said(file, remark)));
    }
}

/// Whether the result can run.
fn check(made: &Made, to: &Path) -> Result<(), Failure> {
    let details = match config::parse(&made.toml, to) {
        Ok(_) => return Ok(()),
        Err(ConfigError::Problems(list)) => list.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    };
    Err(Failure::Say("the result is no configuration that can run; nothing is written".to_owned(), details))
}

/// Writes the master files and then the configuration, if it holds what it must: files that were there before it and are
/// not of an import are never written over.
fn write(made: &Made, to: &Path) -> Result<Vec<PathBuf>, Failure> {
    let folder = to.parent().unwrap_or(Path::new(""));
    let cannot = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::Say(format!("{} cannot be written: {error}", path.display()), Vec::new())
    };
    let (mut written, mut fresh) = (Vec::new(), Vec::new());
    for (path, text) in &made.files {
        let path = folder.join(path);
        if !path.exists() {
            fresh.push(path.clone());
        }
        match fs::read_to_string(&path) {
            Ok(there) if there == *text => continue,
            Ok(there) if !import::is_master_of_ours(&there) => {
                return Err(cannot(&path, &"a file of somebody else is there; move it away"));
            }
            _ => {}
        }
        fs::write(&path, text).map_err(|error| cannot(&path, &error))?;
        written.push(path);
    }
    if let Err(failure) = check(made, to) {
        for path in fresh {
            let _ = fs::remove_file(path);
        }
        return Err(failure);
    }
    fs::write(to, &made.toml).map_err(|error| cannot(to, &error))?;
    written.push(to.to_owned());
    Ok(written)
}
