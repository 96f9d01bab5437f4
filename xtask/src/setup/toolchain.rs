//! The eBPF toolchain: a rustc with a `core` for BPF, and bpf-linker.
//!
//! bpf-linker is built without an LLVM of its own (its default features). It opens one when it runs: the first
//! `libLLVM*` in LD_LIBRARY_PATH, whatever its version. So each route gets a folder that holds one link, to the very LLVM
//! with which its rustc writes bitcode. Left alone, it may take an older LLVM that the machine has for something else.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages;
use crate::command;
use crate::error::{Error, Result};

/// The linker that makes a BPF object from rustc's bitcode. This version speaks to the LLVM 22 of rustc 1.95 to 1.97;
/// 0.13 wants LLVM 23.
const LINKER_VERSION: &str = "0.10.3";

/// The LLVM that bpf-linker of this version speaks to.
const LLVM_MAJOR: &str = "22";

/// What the eBPF code is compiled for.
const TARGET: &str = "bpfel-unknown-none";

/// Debian's compiler. The path is part of the package, not of a machine.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// The Debian packages of route b.
const DEBIAN_PACKAGES: [&str; 2] = ["rustc-web", "libstd-rust-web-dev-bpf"];

/// The Debian package with the clippy of `rustc-web`.
const DEBIAN_CLIPPY: &str = "rust-web-clippy";

/// Where the `core` for BPF comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// rustup's nightly with rust-src: cargo builds `core` itself.
    Nightly,
    /// Debian's rustc-web with a prebuilt `core`.
    Debian,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nightly => "rustup nightly with rust-src (core is built from source)",
            Self::Debian => "Debian's rustc-web with libstd-rust-web-dev-bpf (prebuilt core)",
        })
    }
}

/// A compiler and a linker for BPF that were seen to work.
pub struct Toolchain {
    route: Route,
    rustc: PathBuf,
    /// Holds one link: the LLVM that bpf-linker opens.
    llvm: PathBuf,
    linker: PathBuf,
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, bpf-linker {LINKER_VERSION}", self.route, self.rustc.display())
    }
}

impl Toolchain {
    /// `cargo build` for the eBPF package in `package`; takes no setting from outside.
    pub fn build(&self, package: &Path) -> Command {
        let cargo = match self.route {
            Route::Nightly => command::plain(self.rustc.with_file_name("cargo")),
            Route::Debian => command::plain_cargo(),
        };
        self.configure(cargo, "build", package)
    }

    /// `cargo clippy` for the eBPF package in `package`. The clippy is that of the compiler: another one cannot read its
    /// `core`.
    pub fn clippy(&self, package: &Path) -> Result<Command> {
        let clippy = self.rustc.with_file_name("cargo-clippy");
        if !clippy.is_file() {
            match self.route {
                Route::Nightly => {
                    return Err(Error::missing(
                        "the nightly toolchain has no clippy",
                        "rustup component add clippy --toolchain nightly",
                    ));
                }
                Route::Debian => {
                    println!("setup: installing {DEBIAN_CLIPPY} (lints the eBPF code)");
                    packages::install_named(&[DEBIAN_CLIPPY])?;
                }
            }
        }
        let mut command = command::plain(clippy);
        if self.route == Route::Nightly {
            command.env("CARGO", self.rustc.with_file_name("cargo"));
        }
        Ok(self.configure(command, "clippy", package))
    }

    /// Says to a cargo what to build with.
    fn configure(&self, mut cargo: Command, verb: &str, package: &Path) -> Command {
        let linker = self.linker.display();
        cargo
            .current_dir(package)
            .args([verb, "--release", "--target", TARGET, "--manifest-path"])
            .arg(package.join("Cargo.toml"))
            .env("RUSTC", &self.rustc)
            // A stable compiler wants to be told that we know: BPF is a tier 3 target.
            .env("RUSTC_BOOTSTRAP", "1")
            .env(
                "CARGO_ENCODED_RUSTFLAGS",
                format!("-Clinker={linker}\u{1f}-Clink-arg=--btf\u{1f}-Ctarget-cpu=v3"),
            )
            .env("LD_LIBRARY_PATH", &self.llvm)
            .env("CARGO_TARGET_DIR", target_dir());
        if self.route == Route::Nightly {
            cargo.args(["-Z", "build-std=core"]);
        }
        cargo
    }

    /// The object of the program that lets everything pass.
    #[expect(clippy::unused_self, reason = "only a toolchain that works has made it")]
    pub fn probe(&self) -> PathBuf {
        target_dir().join(TARGET).join("release/probe")
    }

    /// Compiles the smallest XDP program; silent when it has not changed.
    fn prove(self) -> Result<Self> {
        let package = command::root().join("xtask/probe");
        command::quiet(self.build(&package).arg("--locked"))?;
        Ok(self)
    }
}

/// Where eBPF objects are built. Fixed, for `responderd` embeds the object from there.
fn target_dir() -> PathBuf {
    command::root().join("target/bpf")
}

/// Finds a compiler and a linker that work together, or installs them.
pub fn prepare() -> Result<Toolchain> {
    let (route, rustc) = compiler()?;
    let linker = linker()?;
    let llvm = link_llvm(route, &rustc)?;
    Toolchain { route, rustc, llvm, linker }.prove()
}

/// The compiler: Debian's where it is installed, else rustup's nightly, else Debian's is installed.
fn compiler() -> Result<(Route, PathBuf)> {
    let debian = PathBuf::from(DEBIAN_RUSTC);
    if has_bpf_core(&debian) {
        return Ok((Route::Debian, debian));
    }
    if let Some(nightly) = nightly_with_source() {
        return Ok((Route::Nightly, nightly));
    }
    let [compiler, core] = DEBIAN_PACKAGES;
    println!("setup: installing {compiler} and {core} (a rustc with a core library for BPF)");
    packages::install_named(&DEBIAN_PACKAGES)?;
    if has_bpf_core(&debian) {
        return Ok((Route::Debian, debian));
    }
    Err(Error::missing(
        format!("{core} is installed, but {DEBIAN_RUSTC} finds no core library for {TARGET}"),
        format!("apt-get install --reinstall {compiler} {core}"),
    ))
}

/// True where `rustc` has a prebuilt `core` for BPF.
fn has_bpf_core(rustc: &Path) -> bool {
    if !rustc.is_file() {
        return false;
    }
    let asked = command::quiet(command::plain(rustc).args(["--print", "target-libdir", "--target", TARGET]));
    asked.is_ok_and(|dir| !files(Path::new(dir.trim()), "libcore-").is_empty())
}

/// The rustc of rustup's nightly, where the sources of `core` are installed with it.
fn nightly_with_source() -> Option<PathBuf> {
    let rustup = command::find("rustup")?;
    let asked =
        command::quiet(command::plain(rustup).args(["which", "--toolchain", "nightly", "rustc"])).ok()?;
    let rustc = PathBuf::from(asked.trim());
    let sysroot = rustc.parent()?.parent()?;
    sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs").is_file().then_some(rustc)
}

/// bpf-linker of our version, in a folder of its own beside cargo's: a fresh clone finds it, and another version that
/// the user has stays what it is.
fn linker() -> Result<PathBuf> {
    let home = tools()?.join(format!("bpf-linker-{LINKER_VERSION}"));
    let linker = home.join("bin/bpf-linker");
    if linker.is_file() {
        return Ok(linker);
    }
    println!("setup: building bpf-linker {LINKER_VERSION} (makes BPF objects; about a minute)");
    let mut install = command::plain_cargo();
    // The user's cargo settings may name another folder for binaries; --root wins over them.
    install.args(["install", "bpf-linker", "--version", LINKER_VERSION, "--locked", "--root"]).arg(&home);
    command::quiet(&mut install)?;
    Ok(linker)
}

/// Our folder in cargo's home.
fn tools() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
        .ok_or_else(|| Error::missing("neither CARGO_HOME nor HOME is set", "export HOME=..."))?;
    Ok(home.join("responder-tools"))
}

/// Makes the folder with the one LLVM for bpf-linker.
fn link_llvm(route: Route, rustc: &Path) -> Result<PathBuf> {
    let library = llvm_of(rustc)?;
    let folder = tools()?.join(if route == Route::Debian { "llvm-debian" } else { "llvm-nightly" });
    let link = folder.join("libLLVM.so");
    if std::fs::read_link(&link).is_ok_and(|now| now == library) {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder).map_err(|source| Error::file(&folder, source))?;
    if link.is_symlink() {
        std::fs::remove_file(&link).map_err(|source| Error::file(&link, source))?;
    }
    std::os::unix::fs::symlink(&library, &link).map_err(|source| Error::file(&link, source))?;
    Ok(folder)
}

/// The LLVM library with which `rustc` writes bitcode.
fn llvm_of(rustc: &Path) -> Result<PathBuf> {
    let version = command::quiet(command::plain(rustc).arg("-vV"))?;
    let field =
        |name: &str| version.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown").trim();
    let (llvm, host) = (field("LLVM version:"), field("host:"));
    if llvm.split('.').next() != Some(LLVM_MAJOR) {
        return Err(Error::missing(
            format!("{} uses LLVM {llvm}; bpf-linker {LINKER_VERSION} needs {LLVM_MAJOR}", rustc.display()),
            "change LINKER_VERSION and LLVM_MAJOR in xtask/src/setup/toolchain.rs together",
        ));
    }
    let sysroot = rustc.parent().and_then(Path::parent).unwrap_or(Path::new("/usr"));
    let debian_host = host.replace("-unknown-", "-");
    let folders = [sysroot.join("lib"), sysroot.join("lib").join(debian_host)];
    let prefixes = [format!("libLLVM.so.{LLVM_MAJOR}"), format!("libLLVM-{LLVM_MAJOR}")];
    let found =
        folders.iter().find_map(|folder| prefixes.iter().find_map(|prefix| files(folder, prefix).pop()));
    found.ok_or_else(|| {
        Error::missing(
            format!("no libLLVM {LLVM_MAJOR} beside {}", rustc.display()),
            format!("apt-get install libllvm{LLVM_MAJOR}, or install the nightly toolchain again"),
        )
    })
}

/// The files of a folder whose names begin with `prefix`, in order of name.
fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        .collect();
    files.sort();
    files
}
