//! A web server on loopback with the files of a release, and with the faults of real ones.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

/// A running server. It ends with the process.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
}

impl Server {
    /// Serves a folder:
    ///
    /// - `/files/NAME`: a file
    /// - `/cut/NAME`: the first half of an archive, after a header with the whole length
    /// - `/releases/latest/download/NAME` and `/releases/download/vVERSION/NAME`: redirections, as on GitHub
    pub fn start(folder: &Path, version: &str) -> Result<Server, String> {
        let failed = |error: std::io::Error| format!("the web server: {error}");
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (folder, version) = (folder.to_owned(), version.to_owned());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that closes its connection early gets no answer.
                let _ = answer(&stream, &folder, &version);
            }
        });
        Ok(Server { address })
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }
}

fn answer(mut stream: &TcpStream, folder: &Path, version: &str) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    while lines.next().is_some_and(|line| line.is_ok_and(|it| !it.is_empty())) {}
    let path = request.split(' ').nth(1).unwrap_or_default();
    let releases = ["/releases/latest/download/", &format!("/releases/download/v{version}/")]
        .into_iter()
        .find_map(|start| path.strip_prefix(start).map(str::to_owned));
    if let Some(name) = releases {
        return write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: /files/{name}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let cut = path.strip_prefix("/cut/");
    let name = cut.or_else(|| path.strip_prefix("/files/"));
    let content = name.and_then(|name| fs::read(file(folder, name)).ok());
    let Some(content) = content else {
        return write!(
            stream,
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    };
    let half = cut.is_some_and(|name| name.ends_with(".tar.gz"));
    let sent = if half { &content[..content.len() / 2] } else { &content[..] };
    let length = content.len();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
    stream.write_all(sent)
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(name.rsplit('/').next().unwrap_or_default())
}
