//! A Rust file as the rules see it: which lines are tests, how long its functions are, and which
//! names its code mentions. Comments, docs and string literals are no code and are never matched.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A parsed file.
#[derive(Debug)]
pub struct Source {
    /// Path from the repository's root.
    pub path: String,
    /// Lines of the whole file.
    pub lines: usize,
    /// Functions outside tests.
    pub functions: Vec<Function>,
    /// Names and paths outside tests, resolved by the file's imports.
    pub mentions: Vec<Mention>,
    /// Modules declared as `#[cfg(test)] mod name;`, whose file is a test file.
    pub test_modules: Vec<String>,
    test_lines: Vec<RangeInclusive<usize>>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of the `fn`, counted from 1.
    pub line: usize,
    /// Lines from the `fn` to the closing brace, both included.
    pub lines: usize,
}

/// A path in an expression, a type, an import or a macro's arguments.
#[derive(Debug, PartialEq, Eq)]
pub struct Mention {
    /// Segments joined by `::`, the first one resolved by `use`; a method is `.name`.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
}

impl Source {
    /// Parses the file's text.
    ///
    /// # Errors
    /// When it is no Rust source.
    pub fn parse(path: &str, text: &str) -> Result<Self> {
        let context = || format!("{path} does not parse");
        let file = syn::parse_file(text).with_context(context)?;
        let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{path}: {error}"))?;
        let lines = text.lines().count();
        let mut outline = Outline::default();
        if file.attrs.iter().any(is_test_attribute) {
            outline.test_lines.push(1..=lines);
        }
        outline.visit_file(&file);
        let mut reader = MentionReader {
            imports: &outline.imports,
            mentions: Vec::new(),
        };
        reader.read(tokens);
        let Outline {
            test_lines,
            functions,
            test_modules,
            ..
        } = outline;
        let is_test = |line: &usize| test_lines.iter().any(|range| range.contains(line));
        let mut mentions = reader.mentions;
        mentions.retain(|mention| !is_test(&mention.line));
        Ok(Self {
            path: path.to_owned(),
            lines,
            functions: functions
                .into_iter()
                .filter(|function| !is_test(&function.line))
                .collect(),
            mentions,
            test_modules,
            test_lines,
        })
    }

    /// Lines that are not inside a test item.
    pub fn code_lines(&self) -> usize {
        (1..=self.lines)
            .filter(|line| !self.test_lines.iter().any(|range| range.contains(line)))
            .count()
    }
}

/// Collects what needs the syntax tree: test items, functions, imports.
#[derive(Default)]
struct Outline {
    test_lines: Vec<RangeInclusive<usize>>,
    functions: Vec<Function>,
    test_modules: Vec<String>,
    imports: HashMap<String, String>,
}

impl Outline {
    fn push_function(&mut self, signature: &syn::Signature, end: usize) {
        let line = signature.fn_token.span.start().line;
        self.functions.push(Function {
            name: signature.ident.to_string(),
            line,
            lines: end - line + 1,
        });
    }

    fn mark_test(&mut self, attributes: &[syn::Attribute], whole: &impl Spanned) {
        if attributes.iter().any(is_test_attribute) {
            let span = whole.span();
            self.test_lines.push(span.start().line..=span.end().line);
        }
    }
}

impl<'ast> Visit<'ast> for Outline {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.mark_test(item_attributes(item), item);
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.mark_test(&item.attrs, item);
        self.push_function(&item.sig, item.block.span().end().line);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.push_function(&item.sig, block.span().end().line);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.push_function(&item.sig, item.block.span().end().line);
        visit::visit_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() && item.attrs.iter().any(is_test_attribute) {
            self.test_modules.push(item.ident.to_string());
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        flatten_use(&item.tree, &mut Vec::new(), &mut self.imports);
    }
}

/// Remembers under which local name each imported path is known.
fn flatten_use(
    tree: &syn::UseTree,
    prefix: &mut Vec<String>,
    imports: &mut HashMap<String, String>,
) {
    let joined = |prefix: &[String], name: &str| match name {
        "self" => prefix.join("::"),
        _ => [prefix, &[name.to_owned()]].concat().join("::"),
    };
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten_use(&path.tree, prefix, imports);
            prefix.pop();
        }
        syn::UseTree::Name(name) => {
            let full = joined(prefix, &name.ident.to_string());
            let local = full.rsplit("::").next().unwrap_or(&full).to_owned();
            imports.insert(local, full);
        }
        syn::UseTree::Rename(rename) => {
            let full = joined(prefix, &rename.ident.to_string());
            imports.insert(rename.rename.to_string(), full);
        }
        syn::UseTree::Group(group) => {
            group
                .items
                .iter()
                .for_each(|tree| flatten_use(tree, prefix, imports));
        }
        _ => {}
    }
}

fn item_attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[test]`, `#[tokio::test]` and their like, and any `#[cfg(…)]` that asks for `test`.
fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    let path = attribute.path();
    if path.is_ident("cfg") {
        let Ok(list) = attribute.meta.require_list() else {
            return false;
        };
        return asks_for_test(list.tokens.clone());
    }
    path.segments
        .last()
        .is_some_and(|segment| segment.ident == "test")
}

fn asks_for_test(tokens: TokenStream) -> bool {
    let mut negated = false;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if ident == "test" => return true,
            TokenTree::Ident(ident) => negated = ident == "not",
            TokenTree::Group(group) if !negated && asks_for_test(group.stream()) => return true,
            _ => {}
        }
    }
    false
}

/// Reads paths out of the token stream, so that the arguments of macros are seen as well.
struct MentionReader<'a> {
    imports: &'a HashMap<String, String>,
    mentions: Vec<Mention>,
}

/// The path that is being read.
#[derive(Default)]
struct OpenPath {
    segments: Vec<String>,
    line: usize,
    is_method: bool,
    joined: bool,
}

impl MentionReader<'_> {
    fn read(&mut self, tokens: TokenStream) {
        let mut open = OpenPath::default();
        let mut tokens = tokens.into_iter().peekable();
        let mut after_dot = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(ident) => {
                    if !open.joined {
                        self.close(&mut open);
                        open.line = ident.span().start().line;
                        open.is_method = after_dot;
                    }
                    open.segments.push(ident.to_string());
                    open.joined = false;
                    after_dot = false;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    let double = punct.spacing() == Spacing::Joint;
                    let second = tokens.next_if(|token| double && is_colon(token)).is_some();
                    open.joined = second && !open.segments.is_empty();
                }
                TokenTree::Group(group) => {
                    self.close(&mut open);
                    after_dot = false;
                    self.read_group(&group);
                }
                TokenTree::Punct(punct) => {
                    self.close(&mut open);
                    after_dot = punct.as_char() == '.';
                }
                TokenTree::Literal(_) => self.close(&mut open),
            }
        }
        self.close(&mut open);
    }

    fn read_group(&mut self, group: &proc_macro2::Group) {
        let doc = group.delimiter() == Delimiter::Bracket && is_doc(group.stream());
        if !doc {
            self.read(group.stream());
        }
    }

    fn close(&mut self, open: &mut OpenPath) {
        let OpenPath {
            segments,
            line,
            is_method,
            ..
        } = std::mem::take(open);
        let Some((first, rest)) = segments.split_first() else {
            return;
        };
        let head = match (is_method, self.imports.get(first)) {
            (true, _) => format!(".{first}"),
            (false, Some(full)) => full.clone(),
            (false, None) => first.clone(),
        };
        let path = std::iter::once(head)
            .chain(rest.iter().cloned())
            .collect::<Vec<_>>()
            .join("::");
        self.mentions.push(Mention { path, line });
    }
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':')
}

fn is_doc(tokens: TokenStream) -> bool {
    matches!(tokens.into_iter().next(), Some(TokenTree::Ident(ident)) if ident == "doc")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let source = Source::parse("x.rs", text).unwrap();
        source
            .mentions
            .into_iter()
            .map(|mention| mention.path)
            .collect()
    }

    #[test]
    fn imports_renames_and_groups_are_resolved() {
        let text = "use std::time::{self, Instant as Clock, SystemTime};
            fn a() { Clock::now(); SystemTime::now(); time::Instant::now(); }";
        let paths = paths(text);
        for expected in ["std::time::Instant::now", "std::time::SystemTime::now"] {
            assert!(
                paths.iter().any(|path| path == expected),
                "{expected} in {paths:?}"
            );
        }
        assert_eq!(
            paths
                .iter()
                .filter(|path| *path == "std::time::Instant::now")
                .count(),
            2
        );
    }

    #[test]
    fn macro_arguments_are_read_but_text_is_not() {
        let paths = paths("/// SystemTime::now\nfn a() { format!(\"OsRng {}\", b::c()); } // d::e");
        assert!(paths.contains(&"b::c".to_owned()));
        assert!(
            !paths
                .iter()
                .any(|path| path.contains("OsRng") || path.contains("SystemTime"))
        );
    }

    #[test]
    fn methods_are_told_from_paths() {
        let paths = paths("fn a(x: T) { x.elapsed(); elapsed(); }");
        assert_eq!(paths.iter().filter(|path| *path == ".elapsed").count(), 1);
        assert_eq!(paths.iter().filter(|path| *path == "elapsed").count(), 1);
    }

    #[test]
    fn a_test_block_is_neither_counted_nor_read() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() { rand::rng(); }\n}\n";
        let source = Source::parse("x.rs", text).unwrap();
        assert_eq!(source.code_lines(), 2);
        assert_eq!(source.functions.len(), 1);
        assert!(
            !source
                .mentions
                .iter()
                .any(|mention| mention.path == "rand::rng")
        );
    }

    #[test]
    fn code_without_tests_is_no_test() {
        let text = "#[cfg(not(test))]\nfn a() { rand::rng(); }\n";
        let source = Source::parse("x.rs", text).unwrap();
        assert!(
            source
                .mentions
                .iter()
                .any(|mention| mention.path == "rand::rng")
        );
    }

    #[test]
    fn a_test_module_in_a_file_of_its_own_is_named() {
        let source = Source::parse("x.rs", "#[cfg(test)]\nmod tests;\nmod other;\n").unwrap();
        assert_eq!(source.test_modules, ["tests"]);
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let text =
            "impl A {\n    /// Doc.\n    #[inline]\n    pub fn a(\n    ) {\n        b();\n    }\n}";
        let source = Source::parse("x.rs", text).unwrap();
        assert_eq!(
            source.functions,
            [Function {
                name: "a".to_owned(),
                line: 4,
                lines: 4
            }]
        );
    }
}
