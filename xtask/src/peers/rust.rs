//! The peers in Rust.

use std::path::PathBuf;

use super::build_cache::{built, copy, source};
use super::{Commands, quoted};
use crate::cache::{Profile, ThirdPartyBuilds};
use crate::tool::ensure_installed;

/// Programs that are built together, with one lock file.
struct Package {
    /// Its folder in `peers`.
    directory: &'static str,
    /// Other source folders in `peers`.
    shared: &'static [&'static str],
    programs: &'static [Program],
}

/// A name in the index, and its binary.
type Program = (&'static str, &'static str);

const PACKAGES: [Package; 7] = [
    // The largest comes first, so that the others find most of their dependencies built.
    Package {
        directory: "generations",
        shared: &[],
        programs: &[
            ("conductor_3_6", "conductor_3_6"),
            ("conductor_sacp_11", "conductor_sacp_11"),
            ("conductor_sacp_4", "conductor_sacp_4"),
            ("conductor_sacp_5", "conductor_sacp_5"),
            ("eliza_1", "eliza_1"),
            ("eliza_12", "eliza_12"),
            ("ferris", "ferris"),
            ("proxy_0_11", "proxy_0_11"),
            ("proxy_3_6", "proxy_3_6"),
            ("proxy_p3", "proxy_p3"),
            ("proxy_sacp_11", "proxy_sacp_11"),
            ("sparkle_0_1", "sparkle_0_1"),
            ("sparkle_0_7", "sparkle_0_7"),
            ("symposium_cargo", "symposium_cargo"),
            ("tee_0_1", "tee_0_1"),
            ("tee_10", "tee_10"),
            ("tools_0_11", "tools_0_11"),
            ("tools_sacp_11", "tools_sacp_11"),
        ],
    },
    Package {
        directory: "rust-sdk/mcp",
        shared: &[],
        programs: &[
            ("mcp_agent_rust", "mcp-agent"),
            ("reference", "reference"),
            ("tools_5_0", "tools"),
        ],
    },
    Package {
        directory: "rust-sdk",
        shared: &[],
        programs: &[
            ("rust_editor", "acp-editor"),
            ("rust_proxy", "acp-proxy"),
            ("rust_agent", "acp-agent"),
        ],
    },
    Package {
        directory: "generations/tools-3.6",
        shared: &["generations/src/tools.rs"],
        programs: &[("tools_3_6", "tools_3_6")],
    },
    Package {
        directory: "generations/tools-2.2",
        shared: &["generations/src/tools.rs"],
        programs: &[("tools_2_2", "tools_2_2")],
    },
    Package {
        directory: "generations/acp-2.2",
        shared: &["generations/src/proxy.rs"],
        programs: &[("proxy_2_2", "proxy_2_2")],
    },
    Package {
        directory: "generations/acp-1.3",
        shared: &["generations/src/proxy.rs", "generations/src/tools.rs"],
        programs: &[("proxy_1_3", "proxy_1_3"), ("tools_1_3", "tools_1_3")],
    },
];

/// Builds the packages that are missing or whose sources have changed.
pub fn ensure(builds: &ThirdPartyBuilds, commands: &mut Commands) -> Result<(), String> {
    for package in &PACKAGES {
        let directory = source(package.directory);
        let mut sources: Vec<PathBuf> = vec![directory.clone()];
        sources.extend(package.shared.iter().map(|it| source(it)));
        let name = package.directory.replace('/', "-");
        let place = built(&format!("peers-{name}"), &sources, "", |place| {
            if package.directory == "generations" {
                // sparkle-mcp 0.1 has an HTTP client that needs the system's OpenSSL.
                ensure_installed("pkg-config", &["--version"], "pkg-config")?;
                ensure_installed("pkg-config", &["--exists", "openssl"], "libssl-dev")?;
            }
            builds.build(&directory, Profile::Dev)?;
            let from = builds.programs(Profile::Dev);
            let mut binaries = package.programs.iter().map(|(_, binary)| binary);
            binaries.try_for_each(|it| copy(&from.join(it), &place.join(it)))
        })?;
        for (name, binary) in package.programs {
            commands.insert(name, quoted([place.join(binary)]));
        }
    }
    Ok(())
}

/// The path of the proxy on the official SDK, optimised for benchmarks. Builds it if it is missing.
pub fn optimised_proxy() -> Result<PathBuf, String> {
    let directory = source("rust-sdk");
    let place = built("peers-rust-sdk-optimised", std::slice::from_ref(&directory), "", |place| {
        let builds = ThirdPartyBuilds::open()?;
        builds.build(&directory, Profile::Release)?;
        copy(&builds.programs(Profile::Release).join("acp-proxy"), &place.join("acp-proxy"))?;
        builds.close();
        Ok(())
    })?;
    Ok(place.join("acp-proxy"))
}
