//! `conductor studio`: an editor on a web page, through a chain in the same process.
//!
//! To the chain, the studio is an ordinary editor at the other end of a pipe. The editor itself is the crate
//! `acp-conductor-studio`.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use acp_wire::ErrorKind;
use router::Ending;
use web::project::Project;
use web::protocol::Features;
use web::server::{self, Server};
use web::surface::Surface;
use web::topics::Topics;

use crate::agent_ends::AgentEnds;
use crate::config::Config;
use crate::host::leftovers;
use crate::run::run as run_chain;
use crate::tap::Tap;

/// The capacity of the pipe between the studio and the chain.
const PIPE: usize = 1024 * 1024;

/// The options of `conductor studio`.
#[derive(Debug)]
pub struct Options {
    /// The folder of the project.
    pub folder: PathBuf,
    /// The address to listen on.
    pub listen: SocketAddr,
}

/// Runs a chain and an editor for it, until `stop` completes. `opened` gets the address of the page.
///
/// # Errors
/// The page cannot be served.
pub async fn run(
    mut config: Config,
    options: Options,
    opened: impl FnOnce(&str),
    stop: impl Future<Output = ()>,
) -> Result<(), String> {
    let names: Vec<String> = config.components.iter().map(|spec| spec.name.clone()).collect();
    // Finds the processes of a terminal that have left their group.
    let tag = config.cleanup.tag.map(|tag| leftovers::variable(&format!("{tag}.terminal;")));
    let editor_options = studio::Options {
        agent_command: config.components.last().map(|it| it.command_line()).unwrap_or_default(),
        components: names.clone(),
        folder: options.folder.clone(),
        environment: tag.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
    };
    let topics = Topics::default();
    let (surface, events) = Surface::new(topics.clone(), Project::new(&options.folder));
    let features = Features {
        chat: true,
        title: names.join(" › "),
        folder: options.folder.display().to_string(),
    };
    let listen = server::Options { listen: options.listen, features };
    let server = Server::bind(listen, topics.clone()).await.map_err(|error| {
        let why = format!("cannot listen on {}: {error}; choose another --port", options.listen);
        ErrorKind::SystemError.tag(why)
    })?;
    opened(&server.url("studio"));
    let (serving, actions) = server.serve();
    let (ends, agent_ends) = AgentEnds::new(&names);
    let ends = Mutex::new(ends);
    config.tap = Some(Tap::new(move |event| {
        ends.lock().unwrap_or_else(PoisonError::into_inner).update(event);
    }));
    let mut inputs = studio::driver::Inputs { actions, events, agent_ends };
    let serving = tokio::spawn(serving);
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let (reader, writer) = tokio::io::split(theirs);
    let (stop_chain, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut stop_chain = Some(stop_chain);
    let stopped = async move { drop(stopped.await) };
    let mut chain = pin!(run_chain(config, (Box::new(reader), Box::new(writer)), stopped));
    let mut editor = studio::editor::Editor::new(editor_options, topics, surface);
    let mut stop = pin!(stop);
    let mut ending = None;
    {
        let mut editing = pin!(studio::run(&mut editor, tokio::io::split(ours), &mut inputs));
        loop {
            tokio::select! {
                () = &mut editing => break,
                end = &mut chain, if ending.is_none() => ending = Some(end),
                () = &mut stop, if stop_chain.is_some() => drop(stop_chain.take()),
            }
        }
    }
    let ending = match ending {
        Some(ending) => ending,
        None => chain.await,
    };
    if stop_chain.is_some() {
        // The chain has ended by itself. What was said can still be read.
        let why = match ending {
            Ending::Failed(line) => line,
            Ending::Clean => "the chain has ended".to_owned(),
        };
        tracing::error!("{why}");
        editor.on_end(Some(why));
        // Nobody gets what a person does with a panel now, and the page says so.
        drop(inputs.events);
        tokio::select! {
            () = studio::driver::serve_ended(&mut editor, &mut inputs.actions) => {}
            () = &mut stop => {}
        }
    }
    serving.abort();
    Ok(())
}
