//! Each fault in the tables of docs/reliability.md has a test.

use std::path::Path;

use super::root;

/// The faults of docs/reliability.md, and the tests that cause them.
const FAULTS: [(&str, &[&str]); 42] = [
    (
        "`kill -9` of a proxy that has passed the prompt on",
        &["a_killed_proxy_in_a_prompt", "a_component_that_dies_in_every_prompt_costs_nothing"],
    ),
    (
        "`kill -9` of a proxy between prompts",
        &["a_published_proxy_of_every_generation_is_killed_between_prompts"],
    ),
    (
        "`kill -9` of a proxy that has received a cancellation but not passed it on",
        &[
            "editors_of_every_sdk_do_not_notice",
            "a_cancellation_is_not_lost_with_one_that_came_after_the_prompt",
        ],
    ),
    (
        "`kill -9` of an agent that can resume sessions, during a prompt",
        &[
            "a_killed_agent_in_a_prompt",
            "an_agent_of_every_sdk_is_killed_and_takes_its_sessions_up",
        ],
    ),
    (
        "`kill -9` of an agent that cannot resume sessions",
        &["an_agent_that_cannot_take_sessions_up_ends_the_chain_or_the_session"],
    ),
    ("the agent exits with status 0 during a prompt", &["an_agent_that_ends_in_a_prompt"]),
    ("the agent exits with status 3 during a prompt", &["an_agent_that_ends_in_a_prompt"]),
    (
        "`kill -9` of a proxy that offers an MCP server",
        &[
            "a_killed_provider_of_tools",
            "tools_of_every_published_provider_work_after_it_was_killed",
            "a_real_server_behind_a_proxy_that_was_killed",
        ],
    ),
    ("all components are killed at the same time", &["all_components_are_killed_at_once"]),
    (
        "`kill -9` of a nested chain, run by this or another conductor",
        &["a_chain_in_the_chain_is_killed", "a_published_conductor_in_the_chain_is_killed"],
    ),
    (
        "a component is killed repeatedly while it is being restarted",
        &["a_component_is_killed_again_and_again_while_it_is_restarted"],
    ),
    (
        "a component crashes a hundred times",
        &[
            "a_proxy_that_dies_a_hundred_times_costs_nothing",
            "an_agent_that_dies_a_hundred_times_costs_nothing",
        ],
    ),
    (
        "a component is killed in the middle of a line",
        &["a_component_is_killed_in_the_middle_of_a_line"],
    ),
    (
        "a component is killed while 8 MiB messages travel in both directions",
        &["a_component_is_killed_while_long_messages_are_on_their_way_in_both_directions"],
    ),
    (
        "the program of a component has been deleted when it is restarted",
        &["a_program_that_was_removed_meanwhile_is_left_out"],
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
    ("the command is not found", &["a_command_that_is_not_there"]),
    ("the agent never answers `initialize`", &["an_agent_that_never_answers_initialize"]),
    (
        "a component is stopped (`kill -STOP`), with `--prompt-limit` or `--answer-limit`",
        &[
            "a_component_that_is_stopped_in_a_prompt_is_replaced",
            "a_component_that_is_stopped_with_another_request_is_replaced",
        ],
    ),
    (
        "a component is stopped, and the prompt is cancelled",
        &["a_component_that_is_stopped_and_cannot_be_cancelled_is_replaced"],
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
        &["a_component_that_is_stopped_for_a_moment_is_not_replaced"],
    ),
    (
        "the disk is full, for Conductor's log or for the component `log`",
        &[
            "a_full_disk_for_the_log_does_not_touch_the_chain",
            "a_full_disk_for_the_log_component_does_not_touch_the_chain",
        ],
    ),
    (
        "a restart fails because no file descriptors are left",
        &["a_restart_without_descriptors_is_tried_again_until_there_are_some"],
    ),
    (
        "no file descriptors are left for a long time",
        &["restarts_without_descriptors_come_to_an_end"],
    ),
    (
        "MCP clients use up all file descriptors",
        &["calls_that_use_up_the_descriptors_keep_nobody_from_going_on"],
    ),
    (
        "the editor does not read while the agent streams 200,000 updates",
        &["an_editor_that_does_not_read"],
    ),
    (
        "a proxy is stopped while the editor sends 100 MB",
        &["a_proxy_that_is_stopped_holds_the_editor_back_and_goes_on_where_it_was"],
    ),
    (
        "a line that is not UTF-8",
        &["what_is_not_utf8", "an_answer_that_is_no_utf_8_does_not_leave_the_asker_waiting"],
    ),
    ("a line of 64 MiB", &["a_giant_line"]),
    ("JSON that is nested 200 levels deep", &["what_is_nested_deeply", "depth_is_no_limit"]),
    ("integers of 30 digits, long fractions, `1e400`", &["numbers_beyond_a_float"]),
    (
        "SIGTERM, while the components ignore SIGTERM and the end of their input",
        &["a_conductor_that_is_asked_to_end_with_stubborn_components"],
    ),
    (
        "SIGKILL of Conductor, with the same components",
        &["a_conductor_that_is_killed_with_stubborn_components"],
    ),
    (
        "SIGKILL of Conductor's reaper process, then of Conductor",
        &[
            "the_chain_goes_on_without_its_reaper",
            "without_its_reaper_too_a_conductor_that_is_killed_takes_its_components_with_it",
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
            "a_number_that_belongs_to_another_process_by_now_is_spared",
        ],
    ),
    (
        "the editor disconnects while a component waits for its restart or its greeting",
        &[
            "a_chain_ends_though_a_component_waits_to_be_restarted",
            "a_chain_ends_though_a_component_is_being_greeted_again",
        ],
    ),
    (
        "a component leaves a process that has left its process group and session",
        &[
            "strays_of_an_earlier_life_are_ended_with_it",
            "strays_do_not_outlive_the_chain",
            "strays_do_not_outlive_a_conductor_that_is_killed",
        ],
    ),
    (
        "a component leaves a process that has also closed its standard streams (a daemon)",
        &["a_daemon_that_lets_go_of_its_streams_lives_on"],
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
