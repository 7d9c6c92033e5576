//! `conductor man`: the manual page.

use std::io::{self, Write};

use clap::CommandFactory;

use crate::cli::Cli;

/// Writes a single manual page, with a section for each command.
pub fn write_manual(out: &mut dyn Write) -> io::Result<()> {
    let cli = Cli::command();
    let page = clap_mangen::Man::new(cli.clone());
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_description_section(out)?;
    for command in cli.get_subcommands() {
        let name = format!("conductor {}", command.get_name());
        let part = clap_mangen::Man::new(command.clone().bin_name(name.clone()));
        let mut text = Vec::new();
        part.render_synopsis_section(&mut text)?;
        part.render_description_section(&mut text)?;
        part.render_options_section(&mut text)?;
        part.render_extra_section(&mut text)?;
        let text = String::from_utf8_lossy(&text).replace(".SH ", ".SS ");
        write!(out, ".SH \"{}\"\n{text}", name.to_uppercase())?;
    }
    page.render_version_section(out)
}
