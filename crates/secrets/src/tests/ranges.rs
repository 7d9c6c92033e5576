//! Where the secrets of a text are.

use super::*;

#[test]
fn the_ranges_of_a_text_do_not_depend_on_its_length() {
    let nothing = ("nothing", "my-agent --acp".to_owned());
    for (name, token) in samples().into_iter().chain([nothing]) {
        let (short, padding) = (format!("run {token} now"), " ".repeat(SHORT_TEXT));
        let ranges = Secrets::standard_ranges(&short);
        assert_eq!(ranges, Secrets::standard().ranges(&short), "{name}");
        assert_eq!(ranges, Secrets::standard_ranges(&(short + &padding)), "{name}");
        assert_eq!(ranges.is_empty(), name == "nothing");
    }
}
