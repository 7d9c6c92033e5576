//! `conductor trust` and `conductor untrust`: which projects' files may start components.

mod preview;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use acp_conductor::configuration;
use acp_wire::{ErrorKind, printable};
use components::audit::Timestamp;
use config::chain::Configuration;
use config::file::File;
use config::project::{self, ProjectFile};
use config::source::{Diagnostic, Source};
use config::trust::{Consent, Evidence, Record, Store, StoreError};
use config::when::Surroundings;
use serde_json::{Value, json};

use super::output::{Failure, print, print_json};
use crate::cli::{TrustArgs, UntrustArgs};
use preview::Preview;

/// `conductor trust`: shows what the file of a project would run, and asks.
pub fn trust(args: &TrustArgs) -> Result<(), Failure> {
    match args.list {
        true => list(args.json),
        false => decide(&folder(args.dir.as_deref())?, args.yes),
    }
}

/// `conductor untrust`: forgets that a project is trusted.
pub fn untrust(args: &UntrustArgs) -> Result<(), Failure> {
    let store = store()?;
    if args.all {
        let text = match store.withdraw_all().map_err(|why| store_failed(&why))? {
            0 => "You trusted no project.".to_owned(),
            1 => "You do not trust the project any more.".to_owned(),
            count => format!("You do not trust the {count} projects any more."),
        };
        return print(|out| writeln!(out, "{text}"));
    }
    let folder = match &args.dir {
        // The folder may be gone.
        Some(dir) => dir.canonicalize().or_else(|_| std::path::absolute(dir)).map_err(system)?,
        None => folder(None)?,
    };
    // The nearest project that is trusted, whether or not it still has a file.
    for root in folder.ancestors() {
        if store.withdraw(root).map_err(|why| store_failed(&why))? {
            return print(|out| writeln!(out, "You do not trust {} any more.", shown(root)));
        }
    }
    print(|out| writeln!(out, "You did not trust {}.", shown(&folder)))
}

/// Shows the file of a project, and asks. The bytes that are shown are those that are trusted afterwards.
fn decide(folder: &Path, yes: bool) -> Result<(), Failure> {
    let store = store()?;
    // Options that name files begin where an editor would start the conductor.
    std::env::set_current_dir(folder).map_err(system)?;
    let user = configuration::user_source().map_err(|why| wrong(&why))?;
    let found = project::find(folder, configuration::user_file().as_deref());
    let project = found.map_err(|why| Failure::of(why.kind(), &why))?.ok_or_else(|| {
        let [one, other] = project::NAMES;
        let folder = shown(folder);
        let why = format!("there is no {one} and no {other} in {folder} and its parents");
        Failure::of(ErrorKind::UnreadableFile, why)
    })?;
    let preview = read(&store, project, user, folder)?;
    print(|out| out.write_all(preview.text().as_bytes()))?;
    let root = shown(&preview.project.root);
    if preview.consent == Consent::Given {
        return print(|out| writeln!(out, "\nYou trust this project already."));
    }
    let agreed = yes || ask(&preview)?;
    if !agreed {
        let why = format!("you do not trust {root}, and nothing of its file is used");
        return Err(Failure::of(ErrorKind::UntrustedProject, why));
    }
    store.give(&preview.evidence).map_err(|why| store_failed(&why))?;
    print(|out| {
        writeln!(out, "\nYou trust {root} now. `conductor untrust` in that folder ends this.")
    })
}

/// Reads the files to which a consent would apply.
fn read(
    store: &Store,
    project: ProjectFile,
    user: Option<Source>,
    folder: &Path,
) -> Result<Preview, Failure> {
    let file = File::parse(&project.source).map_err(|why| wrong(&why))?;
    let user_file = user.as_ref().map(File::parse).transpose().map_err(|why| wrong(&why))?;
    let sources = user.into_iter().chain([project.source.clone()]);
    let merged = Configuration::load(sources, configuration::built_ins());
    let mut merged = merged.map_err(|why| wrong(&why))?;
    let surroundings = Surroundings::of_process(folder);
    let evidence = Evidence::gather(&project, &mut merged, &surroundings);
    let evidence = evidence.map_err(|why| Failure::of(why.kind(), &why))?;
    let consent = store.consent(&evidence);
    let built_ins = configuration::built_ins().into_iter().map(|it| it.name).collect();
    let user = user_file.unwrap_or_default();
    Ok(Preview { project, file, user, merged, built_ins, evidence, consent })
}

/// Asks on the terminal. Without a terminal, the answer is no.
fn ask(preview: &Preview) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let root = shown(&preview.project.root);
        let why = format!(
            "{root} is not trusted, because there is no terminal to ask on. If you agree to all that is shown above, run \
             conductor trust --yes {}",
            shell_words::quote(&root)
        );
        return Err(Failure::of(ErrorKind::UntrustedProject, why));
    }
    // What was typed before the question is no answer to it.
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    let mut screen = io::stderr().lock();
    let summary = preview.summary();
    let _ = write!(screen, "\nTrust all of this ({summary}), and let conductor run it? [y/N] ");
    let _ = screen.flush();
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(system)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn list(json: bool) -> Result<(), Failure> {
    let records = store()?.list().map_err(|why| store_failed(&why))?;
    let (records, unusable): (Vec<_>, Vec<_>) = records.into_iter().partition(Result::is_ok);
    let records: Vec<Record> = records.into_iter().flatten().collect();
    print(|out| match json {
        true => print_json(out, &records.iter().map(as_json).collect::<Vec<Value>>()),
        false if records.is_empty() => writeln!(out, "You trust no project."),
        false => records.iter().try_for_each(|record| {
            let files = match record.files.len() {
                1 => "1 file".to_owned(),
                count => format!("{count} files"),
            };
            let gone = if record.root.is_dir() { "" } else { ", which does not exist any more" };
            writeln!(out, "{}  {}{gone}, {files}", time(record), shown(&record.root))
        }),
    })?;
    for why in unusable.into_iter().filter_map(Result::err) {
        acp_conductor::log::print_error(&format!("conductor: the record {why}\n"));
    }
    Ok(())
}

fn as_json(record: &Record) -> Value {
    json!({
        "root": record.root,
        "given": time(record),
        "config": record.config,
        "files": record.files,
    })
}

fn time(record: &Record) -> String {
    let time = i64::try_from(record.given).ok().and_then(|it| Timestamp::from_second(it).ok());
    time.unwrap_or_default().to_string()
}

fn folder(named: Option<&Path>) -> Result<PathBuf, Failure> {
    match named {
        None => std::env::current_dir().map_err(system),
        Some(dir) => dir.canonicalize().map_err(|why| {
            let why = format!("the folder {} cannot be used: {why}", shown(dir));
            Failure::of(ErrorKind::UnreadableFile, why)
        }),
    }
}

fn store() -> Result<Store, Failure> {
    configuration::trust_store().ok_or_else(|| {
        let why = "the folder of the user is unknown. Set HOME or XDG_STATE_HOME";
        Failure::of(ErrorKind::UnreadableFile, why)
    })
}

fn store_failed(why: &StoreError) -> Failure {
    Failure::of(why.kind(), why)
}

fn wrong(why: &Diagnostic) -> Failure {
    Failure::run(why.render(false))
}

fn system(why: io::Error) -> Failure {
    Failure::of(ErrorKind::SystemError, why)
}

fn shown(path: &Path) -> String {
    printable::one_line(&path.display().to_string())
}
