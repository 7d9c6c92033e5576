//! The SBOM (software bill of materials) of a program, in the format CycloneDX.

use serde_json::{Value, json};

use super::Release;
use super::dependencies::Dependency;

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
    let standard_library = format!("pkg:generic/rust-std@{rust}");
    let mut program = json!({
        "type": "application",
        "bom-ref": main_url,
        "name": "conductor",
        "version": release.version,
        "purl": main_url,
        "hashes": [{ "alg": "SHA-256", "content": program_sum }],
    });
    if let Some(main) = main {
        describe(&mut program, main);
    }
    let others = dependencies.iter().filter(|it| it.url() != main_url);
    let mut components: Vec<Value> = others.map(component).collect();
    components.push(json!({
        "type": "library",
        "bom-ref": standard_library,
        "name": "rust-std",
        "version": rust,
        "purl": standard_library,
        "licenses": [{ "expression": "MIT OR Apache-2.0" }],
    }));
    components.extend(RUNTIME.iter().map(|(name, license)| {
        json!({
            "type": "library",
            "bom-ref": format!("pkg:generic/{name}"),
            "name": name,
            "description": format!("the version that is part of rust-std {rust}"),
            "purl": format!("pkg:generic/{name}"),
            "licenses": [{ "expression": license }],
        })
    }));
    let mut graph: Vec<Value> = Vec::new();
    for dependency in dependencies {
        let mut uses = dependency.uses.clone();
        uses.extend((dependency.url() == main_url).then(|| standard_library.clone()));
        graph.push(json!({ "ref": dependency.url(), "dependsOn": uses }));
    }
    let runtime: Vec<String> =
        RUNTIME.iter().map(|(name, _)| format!("pkg:generic/{name}")).collect();
    graph.push(json!({ "ref": standard_library, "dependsOn": runtime }));
    graph.extend(runtime.iter().map(|it| json!({ "ref": it, "dependsOn": [] })));
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

fn component(dependency: &Dependency) -> Value {
    let url = dependency.url();
    let mut component = json!({
        "type": "library",
        "bom-ref": url,
        "name": dependency.name,
        "version": dependency.version,
        "scope": "required",
        "purl": url,
    });
    describe(&mut component, dependency);
    if let Some(checksum) = &dependency.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

fn describe(component: &mut Value, dependency: &Dependency) {
    component["licenses"] = json!([{ "expression": dependency.license }]);
    if let Some(text) = &dependency.description {
        component["description"] = json!(text);
    }
    if let Some(url) = &dependency.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": url }]);
    }
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
    let timestamp = bom["metadata"]["timestamp"].as_str().unwrap_or_default();
    expect(timestamp.len() == 20 && timestamp.ends_with('Z'), "metadata.timestamp")?;
    let no_components = || "the SBOM has no components".to_owned();
    let others = bom["components"].as_array().ok_or_else(no_components)?;
    let mut references = Vec::new();
    for component in others.iter().chain([&bom["metadata"]["component"]]) {
        let name = component["name"].as_str().unwrap_or_default();
        expect(!name.is_empty(), "a component has no name")?;
        let kind = component["type"].as_str();
        expect(kind.is_some_and(|it| ["application", "library"].contains(&it)), name)?;
        let expression = component["licenses"][0]["expression"].as_str();
        expect(expression.is_some_and(|it| !it.is_empty() && !it.contains('/')), name)?;
        let url = component["purl"].as_str();
        expect(url.is_some_and(|it| it.starts_with("pkg:")), name)?;
        for hash in component["hashes"].as_array().into_iter().flatten() {
            let content = hash["content"].as_str().unwrap_or_default();
            let hexadecimal =
                content.len() == 64 && content.chars().all(|it| it.is_ascii_hexdigit());
            expect(hash["alg"] == "SHA-256" && hexadecimal, name)?;
        }
        references.push(component["bom-ref"].as_str().unwrap_or_default());
    }
    let count = references.len();
    references.sort_unstable();
    references.dedup();
    expect(references.len() == count, "two components have the same bom-ref")?;
    let graph = bom["dependencies"].as_array().cloned().unwrap_or_default();
    expect(graph.len() == count, "dependencies does not name each component once")?;
    for node in &graph {
        let uses = node["dependsOn"].as_array().into_iter().flatten();
        for reference in uses.chain([&node["ref"]]) {
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
        let names: Vec<&str> = bom["components"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|it| it["name"].as_str())
            .collect();
        for name in ["acp-wire", "acp-conductor-engine", "tokio", "clap", "rust-std", "musl"] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        for name in ["serde_derive", "testkit", "rmcp", "windows-sys"] {
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
