//! Each fault in the tables of docs/reliability.md has a test.

use std::path::Path;

use super::root;

/// The faults of docs/reliability.md, and the tests that cause them.
const FAULTS: [(&str, &[&str]); 42] = [
    (
        "`kill -9` of a proxy that has passed the prompt on",
        &[
            "a_prompt_is_answered_after_a_proxy_is_killed",
            "a_component_that_crashes_in_every_prompt_leaks_nothing",
        ],
    ),
    (
        "`kill -9` of a proxy between prompts",
        &["a_published_proxy_of_every_generation_can_be_killed_between_prompts"],
    ),
    (
        "`kill -9` of a proxy that has received a cancellation but not passed it on",
        &[
            "editors_of_every_sdk_do_not_notice_a_crash",
            "a_cancellation_is_not_lost_with_a_proxy_that_started_after_the_prompt",
        ],
    ),
    (
        "`kill -9` of an agent that can resume sessions, during a prompt",
        &[
            "a_prompt_gets_an_error_after_the_agent_is_killed",
            "an_agent_of_every_sdk_restores_its_sessions_after_it_is_killed",
        ],
    ),
    (
        "`kill -9` of an agent that cannot resume sessions",
        &["an_agent_that_cannot_load_sessions_ends_the_chain_or_its_sessions"],
    ),
    (
        "the agent exits with status 0 during a prompt",
        &["a_prompt_gets_an_error_after_the_agent_exits"],
    ),
    (
        "the agent exits with status 3 during a prompt",
        &["a_prompt_gets_an_error_after_the_agent_exits"],
    ),
    (
        "`kill -9` of a proxy that offers an MCP server",
        &[
            "the_tools_of_a_killed_provider_work_again",
            "tools_of_every_published_provider_work_after_it_is_killed",
            "a_real_server_works_after_its_proxy_is_killed",
        ],
    ),
    (
        "all components are killed at the same time",
        &["the_chain_survives_when_all_components_are_killed_at_once"],
    ),
    (
        "`kill -9` of a nested chain, run by this or another conductor",
        &[
            "an_inner_chain_that_is_killed_is_restarted",
            "a_published_conductor_works_as_a_component_after_it_is_killed",
        ],
    ),
    (
        "a component is killed repeatedly while it is being restarted",
        &["a_component_can_be_killed_repeatedly_during_its_restart"],
    ),
    (
        "a component crashes a hundred times",
        &[
            "a_proxy_that_crashes_a_hundred_times_leaks_nothing",
            "an_agent_that_crashes_a_hundred_times_leaks_nothing",
        ],
    ),
    (
        "a component is killed in the middle of a line",
        &["half_a_line_of_a_killed_component_is_dropped"],
    ),
    (
        "a component is killed while 8 MiB messages travel in both directions",
        &["long_messages_arrive_whole_when_a_component_is_killed"],
    ),
    (
        "the program of a component has been deleted when it is restarted",
        &["a_proxy_whose_program_was_removed_is_bypassed"],
    ),
    (
        "a proxy crashes on every message of one kind",
        &[
            "a_kind_of_message_goes_around_a_proxy_that_crashes_twice_on_it",
            "a_request_that_a_proxy_crashes_on_twice_goes_to_the_next_component",
        ],
    ),
    (
        "a proxy on an old SDK precedes an agent that sends newer updates",
        &[
            "every_update_reaches_the_editor_through_sparkle",
            "every_update_reaches_the_editor_through_proxies_on_old_sdks",
        ],
    ),
    ("the command is not found", &["a_missing_command_is_reported"]),
    ("the agent never answers `initialize`", &["a_silent_agent_is_reported_after_the_timeout"]),
    (
        "a component is stopped (`kill -STOP`), with `--prompt-limit` or `--answer-limit`",
        &[
            "a_component_that_is_stopped_during_a_prompt_is_replaced",
            "a_component_that_is_stopped_during_another_request_is_replaced",
        ],
    ),
    (
        "a component is stopped, and the prompt is cancelled",
        &["a_stopped_component_that_ignores_a_cancellation_is_replaced"],
    ),
    (
        "the agent is killed during a turn of ACP version 2, after it has accepted the prompt",
        &[
            "a_turn_ends_when_its_agent_crashes",
            "an_agent_that_is_silent_in_a_turn_is_replaced",
            "an_agent_that_ignores_a_cancellation_is_replaced_and_the_turn_is_cancelled",
        ],
    ),
    (
        "a component ignores `$/cancel_request`",
        &[
            "a_cancelled_request_is_answered_even_if_the_agent_ignores_the_cancellation",
            "a_cancelled_request_is_answered_even_if_a_proxy_ignores_the_cancellation",
        ],
    ),
    (
        "a component is stopped and continues before the time limit",
        &["a_component_that_is_stopped_briefly_is_not_replaced"],
    ),
    (
        "the disk is full, for Conductor's log or for the component `log`",
        &[
            "a_full_disk_for_the_log_does_not_affect_the_chain",
            "a_full_disk_for_the_log_component_does_not_affect_the_chain",
        ],
    ),
    (
        "a restart fails because no file descriptors are left",
        &["a_restart_that_lacks_descriptors_is_retried"],
    ),
    (
        "no file descriptors are left for a long time",
        &["restarts_that_lack_descriptors_count_toward_the_limit"],
    ),
    (
        "MCP clients use up all file descriptors",
        &["mcp_connections_that_use_up_the_descriptors_do_not_block_the_chain"],
    ),
    (
        "the editor does not read while the agent streams 200,000 updates",
        &["memory_stays_small_when_the_editor_does_not_read"],
    ),
    (
        "a proxy is stopped while the editor sends 100 MB",
        &["a_stopped_proxy_pauses_the_editor_and_loses_no_message"],
    ),
    (
        "a line that is not UTF-8",
        &[
            "invalid_utf_8_does_not_break_the_chain",
            "an_answer_with_invalid_utf_8_becomes_an_error",
        ],
    ),
    ("a line of 64 MiB", &["a_line_of_64_mib_reaches_the_editor"]),
    (
        "JSON that is nested 200 levels deep",
        &["json_nested_200_deep_reaches_the_editor", "deeply_nested_json_passes"],
    ),
    (
        "integers of 30 digits, long fractions, `1e400`",
        &["numbers_beyond_a_float_reach_the_editor_unchanged"],
    ),
    (
        "SIGTERM, while the components ignore SIGTERM and the end of their input",
        &["components_that_ignore_sigterm_end_with_the_conductor"],
    ),
    (
        "SIGKILL of Conductor, with the same components",
        &["components_that_ignore_sigterm_end_with_a_killed_conductor"],
    ),
    (
        "SIGKILL of Conductor's reaper process, then of Conductor",
        &[
            "the_chain_works_without_its_reaper",
            "components_end_with_a_killed_conductor_even_without_its_reaper",
        ],
    ),
    (
        "SIGSTOP of Conductor's reaper process",
        &["a_stopped_reaper_does_not_keep_the_conductor_from_ending"],
    ),
    (
        "a component cannot be executed, and its process id is reused by another program",
        &[
            "a_command_that_cannot_be_executed_is_not_on_the_list",
            "a_process_that_reuses_a_process_id_is_not_killed",
        ],
    ),
    (
        "the editor disconnects while a component waits for its restart or its greeting",
        &[
            "a_chain_can_end_while_a_component_waits_for_its_restart",
            "a_chain_can_end_while_a_restarted_component_is_greeted",
        ],
    ),
    (
        "a component leaves a process that has left its process group and session",
        &[
            "leftover_daemons_of_a_crashed_component_are_ended",
            "leftover_daemons_end_with_the_chain",
            "leftover_daemons_end_with_a_killed_conductor",
        ],
    ),
    (
        "a component leaves a process that has also closed its standard streams (a daemon)",
        &["a_daemon_that_closed_its_standard_streams_lives_on"],
    ),
];

#[test]
fn every_documented_fault_has_a_test() {
    let page = std::fs::read_to_string(root().join("docs/reliability.md")).expect("the page");
    let (_, tables) = page.split_once("## Tested faults").expect("the tables");
    let rows = tables.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let documented: Vec<&str> = rows.filter(|first| *first != "fault").collect();
    let tested: Vec<&str> = FAULTS.iter().map(|(fault, _)| *fault).collect();
    assert_eq!(documented, tested, "docs/reliability.md and FAULTS differ");
    let mut sources = String::new();
    read_sources(&root().join("crates"), &mut sources);
    for (fault, tests) in FAULTS {
        assert!(!tests.is_empty(), "{fault}");
        for test in tests {
            let is_defined = |attribute: &str, function: &str| {
                sources.contains(&format!("#[{attribute}]\n{function} {test}() {{"))
            };
            let found = is_defined("test", "fn") || is_defined("tokio::test", "async fn");
            assert!(found, "{fault}: the test {test} does not exist");
        }
    }
}

/// Appends the text of all Rust files in a directory, without indentation.
fn read_sources(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_sources(&path, text);
        } else if path.extension().is_some_and(|it| it == "rs") {
            for line in std::fs::read_to_string(&path).expect("a file").lines() {
                text.push_str(line.trim_start());
                text.push('\n');
            }
        }
    }
}
