use comfy_table::{ContentArrangement, Table, presets::NOTHING};

/// Lays rows out in columns for people, without lines.
pub(super) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(head.to_vec());
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_told_apart_by_two_spaces() {
        let rows = vec![vec!["ada".to_owned(), "1".to_owned()], vec!["b".to_owned(), "22".to_owned()]];
        assert_eq!(super::table(&["NAME", "CYCLE"], rows), "NAME  CYCLE\nada   1\nb     22\n");
    }
}
