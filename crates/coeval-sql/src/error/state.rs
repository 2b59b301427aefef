// SPDX-License-Identifier: Apache-2.0
//! The SQLSTATEs that Coeval answers with.

use std::{fmt, io};

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// A SQLSTATE, by PostgreSQL's name for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum SqlState {
            $(#[doc = $code] $name,)*
        }

        impl SqlState {
            /// Its five characters.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }

            /// The state with these five characters.
            pub(crate) fn of_code(code: &str) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

states! {
    SuccessfulCompletion = "00000",
    InvalidTransactionStateNotice = "01000",
    ConnectionFailure = "08006",
    TransactionResolutionUnknown = "08007",
    ProtocolViolation = "08P01",
    FeatureNotSupported = "0A000",
    CardinalityViolation = "21000",
    StringDataRightTruncation = "22001",
    NumericValueOutOfRange = "22003",
    NullValueNotAllowed = "22004",
    InvalidDatetimeFormat = "22007",
    DatetimeFieldOverflow = "22008",
    InvalidTimeZoneDisplacementValue = "22009",
    SubstringError = "22011",
    DivisionByZero = "22012",
    InvalidPrecedingOrFollowingSize = "22013",
    InvalidArgumentForNtile = "22014",
    InvalidArgumentForNthValue = "22016",
    InvalidArgumentForSqlJsonDatetimeFunction = "22031",
    IntervalFieldOverflow = "22015",
    InvalidArgumentForLogarithm = "2201E",
    InvalidArgumentForPowerFunction = "2201F",
    InvalidArgumentForWidthBucketFunction = "2201G",
    InvalidRowCountInLimitClause = "2201W",
    InvalidRowCountInResultOffsetClause = "2201X",
    InvalidRegularExpression = "2201B",
    InvalidEscapeSequence = "22025",
    StringDataLengthMismatch = "22026",
    CharacterNotInRepertoire = "22021",
    ArraySubscriptError = "2202E",
    InvalidTablesampleArgument = "2202H",
    InvalidParameterValue = "22023",
    InvalidSqlJsonSubscript = "22033",
    NonNumericSqlJsonItem = "22036",
    SingletonSqlJsonItemRequired = "22038",
    SqlJsonArrayNotFound = "22039",
    SqlJsonMemberNotFound = "2203A",
    SqlJsonNumberNotFound = "2203B",
    SqlJsonObjectNotFound = "2203C",
    SequenceGeneratorLimitExceeded = "2200H",
    InvalidTextRepresentation = "22P02",
    InvalidBinaryRepresentation = "22P03",
    BadCopyFileFormat = "22P04",
    UntranslatableCharacter = "22P05",
    IntegrityConstraintViolation = "23000",
    RestrictViolation = "23001",
    NotNullViolation = "23502",
    ForeignKeyViolation = "23503",
    UniqueViolation = "23505",
    CheckViolation = "23514",
    InvalidTransactionState = "25000",
    ActiveSqlTransaction = "25001",
    ReadOnlySqlTransaction = "25006",
    NoActiveSqlTransaction = "25P01",
    InFailedSqlTransaction = "25P02",
    IdleInTransactionSessionTimeout = "25P03",
    InvalidSqlStatementName = "26000",
    InvalidAuthorizationSpecification = "28000",
    InvalidPassword = "28P01",
    InvalidGrantOperation = "0LP01",
    DependentObjectsStillExist = "2BP01",
    InvalidCursorState = "24000",
    InvalidCursorName = "34000",
    InvalidSavepointSpecification = "3B001",
    InvalidCatalogName = "3D000",
    InvalidSchemaName = "3F000",
    SerializationFailure = "40001",
    DeadlockDetected = "40P01",
    SyntaxErrorOrAccessRuleViolation = "42000",
    InsufficientPrivilege = "42501",
    SyntaxError = "42601",
    InvalidName = "42602",
    NameTooLong = "42622",
    ReservedName = "42939",
    InvalidColumnDefinition = "42611",
    DuplicateColumn = "42701",
    AmbiguousColumn = "42702",
    UndefinedColumn = "42703",
    UndefinedObject = "42704",
    DuplicateObject = "42710",
    DuplicateAlias = "42712",
    DuplicateFunction = "42723",
    AmbiguousFunction = "42725",
    GroupingError = "42803",
    DatatypeMismatch = "42804",
    WrongObjectType = "42809",
    InvalidForeignKey = "42830",
    CannotCoerce = "42846",
    UndefinedFunction = "42883",
    GeneratedAlways = "428C9",
    UndefinedTable = "42P01",
    UndefinedParameter = "42P02",
    DuplicateCursor = "42P03",
    DuplicatePreparedStatement = "42P05",
    DuplicateSchema = "42P06",
    DuplicateTable = "42P07",
    AmbiguousParameter = "42P08",
    InvalidColumnReference = "42P10",
    InvalidSchemaDefinition = "42P15",
    InvalidTableDefinition = "42P16",
    InvalidObjectDefinition = "42P17",
    IndeterminateDatatype = "42P18",
    InvalidRecursion = "42P19",
    WindowingError = "42P20",
    WithCheckOptionViolation = "44000",
    DiskFull = "53100",
    OutOfMemory = "53200",
    TooManyConnections = "53300",
    ConfigurationLimitExceeded = "53400",
    ProgramLimitExceeded = "54000",
    StatementTooComplex = "54001",
    TooManyColumns = "54011",
    ObjectNotInPrerequisiteState = "55000",
    ObjectInUse = "55006",
    CannotChangeRuntimeParameter = "55P02",
    LockNotAvailable = "55P03",
    QueryCanceled = "57014",
    AdminShutdown = "57P01",
    CannotConnectNow = "57P03",
    IdleSessionTimeout = "57P05",
    IoError = "58030",
    UndefinedFile = "58P01",
    DuplicateFile = "58P02",
    FdwError = "HV000",
    InternalError = "XX000",
    DataCorrupted = "XX001",
}

impl SqlState {
    /// The state of a file that could not be read or written.
    pub(crate) fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::IoError,
        }
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
