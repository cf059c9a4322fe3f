//! Bit fields and enumerations of the command set, each declared once.
//!
//! A field's place (dword, highest and lowest bit) stands in one `bit_fields!` list, and a
//! closed set of values in one `wire_enum!` list. The accessors are made from these lists,
//! and the test that holds `docs/command-set.md` to the code reads the same lists, so that a
//! field cannot be moved in one place only.

/// The place of a bit field: which dword of its structure, and which bits of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bits {
    /// Index of the dword (10 for CDW10; 0 where the structure is a single word).
    pub(crate) dword: u8,
    /// Lowest bit, 0..=31.
    pub(crate) low: u8,
    /// Highest bit, `low`..=31.
    pub(crate) high: u8,
}

impl Bits {
    /// Names bits `high:low` of dword `dword`; refuses an impossible place at compile time.
    pub(crate) const fn new(dword: u8, high: u8, low: u8) -> Bits {
        assert!(dword < 16 && low <= high && high < 32);
        Bits { dword, low, high }
    }

    /// The largest value the field can hold.
    #[inline]
    pub(crate) const fn max(self) -> u32 {
        u32::MAX >> (31 - (self.high - self.low))
    }

    /// Takes the field out of its dword.
    #[inline]
    pub(crate) const fn get(self, dword: u32) -> u32 {
        (dword >> self.low) & self.max()
    }

    /// Puts the field into its dword, leaving the other bits alone.
    ///
    /// # Panics
    /// If `value` does not fit: the callers check their arguments, so this is our bug.
    #[inline]
    pub(crate) const fn put(self, dword: u32, value: u32) -> u32 {
        assert!(value <= self.max(), "value does not fit its bit field");
        dword & !(self.max() << self.low) | value << self.low
    }
}

/// Declares the bit fields of one structure as constants of a module:
/// `NAME = dword [high:low];`.
macro_rules! bit_fields {
    ($(#[$meta:meta])* mod $module:ident {
        $($(#[$field_meta:meta])* $field:ident = $dword:literal [$high:literal : $low:literal];)*
    }) => {
        $(#[$meta])*
        pub(crate) mod $module {
            use crate::bits::Bits;
            $($(#[$field_meta])* pub(crate) const $field: Bits = Bits::new($dword, $high, $low);)*
            /// Every field by name, for the test that reads the specification.
            #[cfg(test)]
            pub(crate) const ALL: &[(&str, Bits)] = &[$((stringify!($field), $field)),*];
        }
    };
}

/// Declares a closed set of wire values: `Variant = value => "text"`.
macro_rules! wire_enum {
    ($(#[$meta:meta])* pub enum $name:ident : $repr:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $value:literal => $text:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($repr)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $value,)*
        }

        impl $name {
            /// Every value, in the order of the specification.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The value on the wire.
            #[inline]
            pub const fn raw(self) -> $repr {
                self as $repr
            }

            /// The meaning of a value from the wire, or `None` if it has none here.
            #[inline]
            pub const fn from_raw(raw: $repr) -> Option<$name> {
                match raw {
                    $($value => Some($name::$variant),)*
                    _ => None,
                }
            }

            /// What a person calls it.
            pub const fn text(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}

pub(crate) use {bit_fields, wire_enum};

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn a_field_is_put_and_taken_without_touching_its_neighbours() {
        let middle = Bits::new(12, 11, 4);
        assert_eq!(middle.max(), 0xff);
        assert_eq!(middle.get(0xabcd_e5af), 0x5a);
        assert_eq!(middle.put(0xffff_ffff, 0), 0xffff_f00f);
        assert_eq!(middle.put(0, 0xff), 0x0000_0ff0);
    }

    #[test]
    fn the_whole_dword_and_a_single_bit_are_fields_too() {
        let whole = Bits::new(10, 31, 0);
        assert_eq!(whole.put(1, u32::MAX), u32::MAX);
        assert_eq!(whole.get(0xdead_beef), 0xdead_beef);
        let top = Bits::new(10, 31, 31);
        assert_eq!(top.put(0, 1), 1 << 31);
        assert_eq!(top.max(), 1);
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn a_value_too_large_for_its_field_is_refused() {
        Bits::new(12, 3, 0).put(0, 16);
    }
}
