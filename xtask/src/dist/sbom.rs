//! The SBOM (software bill of materials) of a program, in the format CycloneDX.

use serde_json::{Value, json};

use super::Release;
use super::dependencies::Dependency;
use crate::tool::{list, text};

/// The version of CycloneDX.
const FORMAT: &str = "1.5";

/// What the program contains besides crates: the parts that Rust brings.
const RUNTIME: [(&str, &str); 2] =
    [("musl", "MIT"), ("llvm-libunwind", "Apache-2.0 WITH LLVM-exception")];

/// The SBOM of the program for a platform. `program_sum` is its SHA-256 checksum.
pub fn document(
    release: &Release,
    target: &str,
    dependencies: &[Dependency],
    rust: &str,
    program_sum: &str,
) -> Value {
    let main = dependencies.iter().find(|it| it.name == "acp-conductor");
    let main_url = main.map(Dependency::url).unwrap_or_default();
    let (mut components, mut graph) = (Vec::new(), Vec::new());
    let mut add = |url: &str, of: Value, uses: Value| {
        let mut component = json!({ "type": "library", "bom-ref": url, "purl": url });
        for (key, value) in of.as_object().into_iter().flatten() {
            component[key] = value.clone();
        }
        components.push(component);
        graph.push(json!({ "ref": url, "dependsOn": uses }));
    };
    let standard_library = format!("pkg:generic/rust-std@{rust}");
    for dependency in dependencies {
        let Dependency { name, version, license, repository, checksum, .. } = dependency;
        let (mut uses, url) = (dependency.uses.clone(), dependency.url());
        let mut of = json!({ "name": name, "version": version, "scope": "required",
            "licenses": [{ "expression": license }] });
        if url == main_url {
            uses.insert(standard_library.clone());
            of["type"] = json!("application");
            of["name"] = json!("conductor");
        }
        let sum = if url == main_url { Some(program_sum) } else { checksum.as_deref() };
        if let Some(sum) = sum {
            of["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        if !repository.is_empty() {
            of["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
        }
        add(&url, of, json!(uses));
    }
    let runtime = RUNTIME.map(|(name, _)| format!("pkg:generic/{name}"));
    let of = json!({ "name": "rust-std", "version": rust,
        "licenses": [{ "expression": "MIT OR Apache-2.0" }] });
    add(&standard_library, of, json!(runtime));
    for (url, (name, license)) in runtime.iter().zip(RUNTIME) {
        let description = format!("the version that is part of rust-std {rust}");
        let licenses = json!([{ "expression": license }]);
        let of = json!({ "name": name, "description": description, "licenses": licenses });
        add(url, of, json!([]));
    }
    let program = components.iter().position(|it| it["bom-ref"] == main_url.as_str());
    let program = program.map(|at| components.remove(at));
    json!({
        "$schema": format!("http://cyclonedx.org/schema/bom-{FORMAT}.schema.json"),
        "bomFormat": "CycloneDX",
        "specVersion": FORMAT,
        "version": 1,
        "metadata": {
            "timestamp": release.timestamp,
            "tools": { "components": [
                { "type": "application", "name": "conductor-xtask-dist", "version": release.version },
            ] },
            "component": program,
            "properties": [
                { "name": "conductor:commit", "value": release.commit },
                { "name": "conductor:target", "value": target },
                { "name": "conductor:rustc", "value": rust },
            ],
        },
        "components": components,
        "dependencies": graph,
    })
}

/// Checks what the schema of CycloneDX requires of the parts that this SBOM uses.
pub fn check(bom: &Value) -> Result<(), String> {
    let expect = |holds: bool, what: &str| match holds {
        true => Ok(()),
        false => Err(format!("the SBOM is invalid: {what}")),
    };
    expect(bom["bomFormat"] == "CycloneDX", "bomFormat")?;
    expect(bom["specVersion"] == FORMAT, "specVersion")?;
    expect(bom["version"].as_u64().is_some_and(|it| it >= 1), "version")?;
    let timestamp = text(&bom["metadata"]["timestamp"]);
    expect(timestamp.len() == 20 && timestamp.ends_with('Z'), "metadata.timestamp")?;
    expect(bom["components"].is_array(), "components")?;
    let mut references = Vec::new();
    for component in list(&bom["components"]).chain([&bom["metadata"]["component"]]) {
        let name = text(&component["name"]);
        expect(!name.is_empty(), "a component has no name")?;
        expect(["application", "library"].contains(&text(&component["type"])), name)?;
        let expression = text(&component["licenses"][0]["expression"]);
        expect(!expression.is_empty() && !expression.contains('/'), name)?;
        expect(text(&component["purl"]).starts_with("pkg:"), name)?;
        for hash in list(&component["hashes"]) {
            let content = text(&hash["content"]);
            let hexadecimal =
                content.len() == 64 && content.chars().all(|it| it.is_ascii_hexdigit());
            expect(hash["alg"] == "SHA-256" && hexadecimal, name)?;
        }
        references.push(text(&component["bom-ref"]));
    }
    let count = references.len();
    references.sort_unstable();
    references.dedup();
    expect(references.len() == count, "two components have the same bom-ref")?;
    let graph: Vec<&Value> = list(&bom["dependencies"]).collect();
    expect(graph.len() == count, "dependencies does not name each component once")?;
    for node in graph {
        for reference in list(&node["dependsOn"]).chain([&node["ref"]]) {
            let known = reference.as_str().is_some_and(|it| references.binary_search(&it).is_ok());
            expect(known, &format!("dependencies names {reference}, which is no component"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{TARGETS, dependencies};
    use super::*;

    type Change = fn(&mut Value);

    fn sample() -> Value {
        let dependencies = dependencies::read(TARGETS[1]).expect("the crates of the program");
        let release = Release {
            version: "0.1.0".to_owned(),
            commit: "c".repeat(40),
            seconds: "0".to_owned(),
            timestamp: "1970-01-01T00:00:00Z".to_owned(),
        };
        document(&release, TARGETS[1], &dependencies, "1.91.0", &"0".repeat(64))
    }

    #[test]
    fn the_sbom_lists_every_linked_crate_and_is_valid() {
        let bom = sample();
        check(&bom).expect("a valid SBOM");
        assert_eq!(bom["metadata"]["component"]["name"], "conductor");
        let names: Vec<&str> = list(&bom["components"]).map(|it| text(&it["name"])).collect();
        for name in ["acp-wire", "acp-conductor-engine", "tokio", "clap", "rust-std", "musl"] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        for name in ["serde_derive", "testkit", "rmcp", "windows-sys", "conductor"] {
            assert!(!names.contains(&name), "{name} is not part of the program");
        }
        let tokio = &bom["components"][names.iter().position(|it| *it == "tokio").expect("tokio")];
        assert_eq!(tokio["licenses"][0]["expression"], "MIT");
        assert_eq!(tokio["hashes"][0]["content"].as_str().map(str::len), Some(64));
    }

    #[test]
    fn an_invalid_sbom_is_refused() {
        let breaks: [(&str, Change); 6] = [
            ("bomFormat", |it| it["bomFormat"] = json!("SPDX")),
            ("timestamp", |it| it["metadata"]["timestamp"] = json!("today")),
            ("has no name", |it| it["components"][0]["name"] = json!("")),
            ("bom-ref", |it| it["components"][0] = it["components"][1].clone()),
            ("no component", |it| it["dependencies"][0]["dependsOn"] = json!(["pkg:cargo/x@1"])),
            ("invalid", |it| it["components"][0]["licenses"][0]["expression"] = json!("MIT/X")),
        ];
        let valid = sample();
        for (word, change) in breaks {
            let mut bom = valid.clone();
            change(&mut bom);
            let error = check(&bom).expect_err(word);
            assert!(error.contains(word), "{error}");
        }
    }
}
