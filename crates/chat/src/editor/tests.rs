use super::*;

fn press(editor: &mut Editor, keys: &str) {
    for word in keys.split(' ') {
        let key = match word {
            "Left" => plain(KeyCode::Left),
            "Right" => plain(KeyCode::Right),
            "Up" => plain(KeyCode::Up),
            "Down" => plain(KeyCode::Down),
            "Home" => plain(KeyCode::Home),
            "End" => plain(KeyCode::End),
            "Backspace" => plain(KeyCode::Backspace),
            "Delete" => plain(KeyCode::Delete),
            "Enter" => plain(KeyCode::Enter),
            "Esc" => plain(KeyCode::Esc),
            "Space" => plain(KeyCode::Char(' ')),
            "Alt-Enter" => KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT),
            "Shift-Enter" => KeyEvent::new(KeyCode::Enter, KeyModifiers::SHIFT),
            "Alt-Backspace" => KeyEvent::new(KeyCode::Backspace, KeyModifiers::ALT),
            _ => match (word.strip_prefix("Ctrl-"), word.strip_prefix("Alt-")) {
                (Some(key), _) => letter(key, KeyModifiers::CONTROL),
                (_, Some(key)) => letter(key, KeyModifiers::ALT),
                _ => {
                    for it in word.chars() {
                        editor.key(plain(KeyCode::Char(it)));
                    }
                    continue;
                }
            },
        };
        editor.key(key);
    }
}

fn plain(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn letter(key: &str, modifiers: KeyModifiers) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(key.chars().next().expect("a letter")), modifiers)
}

/// The text after these keys, with `|` at the cursor.
fn edited(keys: &str) -> String {
    let mut editor = Editor::new(vec!["first".into(), "second\nline".into()]);
    press(&mut editor, keys);
    let mut text = editor.text.clone();
    text.insert(editor.cursor, '|');
    text
}

#[test]
fn keys_move_the_cursor_and_delete_text() {
    for (keys, expected) in [
        ("abc Left Left x", "ax|bc"),
        ("abc Home x End y", "xabcy|"),
        ("abc Ctrl-a Ctrl-f x", "ax|bc"),
        ("abc Ctrl-b Delete", "ab|"),
        ("abc Left Backspace", "a|c"),
        ("abc Left Ctrl-d", "ab|"),
        ("Backspace Delete Left Right Ctrl-w Ctrl-k Ctrl-y", "|"),
        ("ab Ctrl-t", "ba|"),
    ] {
        assert_eq!(edited(keys), expected, "{keys}");
    }
}

#[test]
fn words_are_deleted_and_inserted_again() {
    for (keys, expected) in [
        ("one Space two Ctrl-w", "one |"),
        ("one Space two Ctrl-w Ctrl-y Ctrl-y", "one twotwo|"),
        ("one Space two Alt-b x", "one x|two"),
        ("one Space two Alt-b Alt-b Alt-f x", "onex| two"),
        ("one Space two Alt-b Ctrl-k", "one |"),
        ("one Space two Alt-b Ctrl-u Ctrl-e Ctrl-y", "twoone |"),
        ("one.two Alt-Backspace", "one.|"),
        ("one Space two Home Alt-d", "| two"),
    ] {
        assert_eq!(edited(keys), expected, "{keys}");
    }
}

#[test]
fn a_text_can_have_several_lines() {
    for (keys, expected) in [
        ("a Alt-Enter b", "a\nb|"),
        ("a Shift-Enter b", "a\nb|"),
        ("a Ctrl-j b", "a\nb|"),
        ("a\\ Enter b", "a\nb|"),
        ("abc Ctrl-j d Up x", "ax|bc\nd"),
        ("abc Ctrl-j d Up Down", "abc\nd|"),
        ("a Ctrl-j b Home x", "a\nx|b"),
        ("a Ctrl-j b Up End Ctrl-k", "a|b"),
    ] {
        assert_eq!(edited(keys), expected, "{keys}");
    }
}

#[test]
fn enter_returns_the_text_and_ignores_an_empty_one() {
    let mut editor = Editor::default();
    press(&mut editor, "hello");
    assert_eq!(editor.key(plain(KeyCode::Enter)), Outcome::Entered("hello".into()));
    assert!(editor.is_empty());
    press(&mut editor, "Space");
    assert_eq!(editor.key(plain(KeyCode::Enter)), Outcome::Edited);
    assert!(editor.is_empty());
}

#[test]
fn up_and_down_show_the_history_and_keep_the_draft() {
    for (keys, expected) in [
        ("Up", "second\nline|"),
        ("Up Up", "first|"),
        ("Up Up Up", "first|"),
        ("draft Up Up Down Down", "draft|"),
        ("draft Up Down Down", "draft|"),
        ("Ctrl-p Ctrl-p Ctrl-n", "second\nline|"),
    ] {
        assert_eq!(edited(keys), expected, "{keys}");
    }
}

#[test]
fn up_and_down_move_in_an_entry_with_several_lines_after_the_cursor_has_moved() {
    for (keys, expected) in [
        ("Up Up", "first|"),
        ("Up Left Up x", "secx|ond\nline"),
        ("Up Home Up Down x", "second\nx|line"),
        ("Up Home Up Up", "first|"),
    ] {
        assert_eq!(edited(keys), expected, "{keys}");
    }
}

#[test]
fn an_edited_entry_is_kept_as_the_draft() {
    assert_eq!(edited("Up x Up Up Down Down"), "second\nlinex|");
    assert_eq!(edited("Up Up x Down Down"), "firstx|");
    assert_eq!(edited("draft Up Up Ctrl-u Down Down"), "draft|");
}

#[test]
fn ctrl_g_ends_a_search_and_restores_the_text() {
    assert_eq!(edited("draft Ctrl-r sec Ctrl-g"), "draft|");
    assert_eq!(edited("draft Ctrl-r s Backspace"), "draft|");
    assert_eq!(edited("draft Ctrl-r fir Esc"), "first|");
}

#[test]
fn ctrl_r_searches_the_history() {
    for (keys, expected) in [
        ("Ctrl-r fi", "first|"),
        ("Ctrl-r i", "second\nline|"),
        ("Ctrl-r i Ctrl-r", "first|"),
        ("Ctrl-r i Ctrl-r Ctrl-r", "first|"),
        ("Ctrl-r fi Esc x", "firstx|"),
        ("Ctrl-r fi Home x", "x|first"),
        ("Ctrl-r xyz", "|"),
        // The last entry that matched stays.
        ("Ctrl-r fix", "first|"),
    ] {
        assert_eq!(edited(keys), expected, "{keys}");
    }
    let mut editor = Editor::new(vec!["first".into()]);
    press(&mut editor, "Ctrl-r xyz");
    assert_eq!(editor.search(), Some(("xyz", false)));
    press(&mut editor, "Backspace Backspace Backspace f");
    assert_eq!(editor.search(), Some(("f", true)));
    assert_eq!(editor.key(plain(KeyCode::Enter)), Outcome::Entered("first".into()));
}

#[test]
fn an_entry_that_starts_with_a_space_or_repeats_the_last_one_is_not_remembered() {
    let mut editor = Editor::default();
    assert!(editor.remember("one"));
    assert!(!editor.remember("one"));
    assert!(!editor.remember(" secret"));
    assert!(!editor.remember("\n"));
    assert!(editor.remember("two"));
    assert_eq!(editor.history, ["one", "two"]);
}

#[test]
fn pasted_text_keeps_its_lines_and_loses_control_characters() {
    let mut editor = Editor::default();
    editor.insert("a\r\nb\rc\t\x1b[31md\x07");
    assert_eq!(editor.text(), "a\nb\nc    d");
}

#[test]
fn the_cursor_moves_by_characters_as_people_see_them() {
    for (keys, expected) in
        [("e\u{301}x Left Left y", "y|e\u{301}x"), ("👩‍👩‍👧 Backspace", "|"), ("漢字 Left x", "漢x|字")]
    {
        assert_eq!(edited(keys), expected, "{keys}");
    }
}

#[test]
fn rows_break_at_the_width_and_show_the_cursor() {
    let rows = |text: &str, columns| {
        let mut editor = Editor::default();
        editor.insert(text);
        let rows = editor.rows(columns);
        (rows.rows.join("/"), rows.row, rows.column)
    };
    assert_eq!(rows("", 5), (String::new(), 0, 0));
    assert_eq!(rows("abc", 5), ("abc".into(), 0, 3));
    assert_eq!(rows("abcde", 5), ("abcde/".into(), 1, 0));
    assert_eq!(rows("abcdef", 5), ("abcde/f".into(), 1, 1));
    assert_eq!(rows("漢字漢", 5), ("漢字/漢".into(), 1, 2));
    assert_eq!(rows("a\nb", 5), ("a/b".into(), 1, 1));
    let mut editor = Editor::default();
    editor.insert("1\n2\n3\n4");
    let rows = editor.rows(5).around_cursor(2);
    assert_eq!((rows.rows.join("/"), rows.row), ("3/4".into(), 1));
}

/// Every sequence of keys leaves the cursor at the boundary of a character, and rows that fit.
#[test]
fn random_keys_do_no_harm() {
    let keys = [
        "a",
        "漢",
        "e\u{301}",
        "👩‍👩‍👧",
        "Space",
        "Left",
        "Right",
        "Up",
        "Down",
        "Home",
        "End",
        "Enter",
        "Backspace",
        "Delete",
        "Alt-Enter",
        "Ctrl-k",
        "Ctrl-u",
        "Ctrl-w",
        "Ctrl-y",
        "Ctrl-t",
        "Ctrl-r",
        "Alt-b",
        "Alt-f",
        "Alt-d",
        "Esc",
        "\\",
    ];
    let mut random = crate::random::Random::new(7);
    for _ in 0..200 {
        let mut editor = Editor::new(vec!["first".into(), "a\nb".into()]);
        for _ in 0..100 {
            press(&mut editor, keys[random.below(keys.len())]);
            assert!(editor.text.is_char_boundary(editor.cursor));
            let columns = 1 + random.below(12);
            let rows = editor.rows(columns);
            assert!(rows.row < rows.rows.len() && rows.column <= columns);
            assert!(rows.rows.iter().all(|row| crate::text::width(row) <= columns));
        }
    }
}
