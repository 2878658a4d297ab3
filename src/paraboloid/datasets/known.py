"""The digests of every array that a data set is made of, by the name of its file.

They were computed from copies whose origin was checked: MNIST and Fashion-MNIST rebuild the official files byte
for byte, CIFAR-10 the official batches; the tables rebuild the texts of their archives. Where only a subset was at
hand, the digests of the whole stand beside it. docs/datasets.md says what has not been compared with an official copy.
"""

from __future__ import annotations

from paraboloid.datasets.editions import Array, Edition

OFFICIAL = "the official files, in their order"
ANY_ORDER = "the official images, in another order"
SUBSET = "a balanced subset"


def _in_any_order(edition: Edition, **sets: str) -> Edition:
    """The same arrays, where set digests stand for the order-dependent ones of images and labels."""
    vouched = {f"{letter}_{part}" for part in sets for letter in "xy"}
    arrays = {k: Array(a.shape, a.dtype) if k in vouched else a for k, a in edition.arrays.items()}
    return Edition(ANY_ORDER, arrays, sets)


_MNIST = Edition(
    OFFICIAL,
    {
        "x_train": Array((60000, 28, 28), "|u1", "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757"),
        "y_train": Array((60000,), "|u1", "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13"),
        "x_test": Array((10000, 28, 28), "|u1", "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161"),
        "y_test": Array((10000,), "|u1", "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5"),
    },
)
_FASHION_MNIST = Edition(
    OFFICIAL,
    {
        "x_train": Array((60000, 28, 28), "|u1", "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012"),
        "y_train": Array((60000,), "|u1", "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7"),
        "x_test": Array((10000, 28, 28), "|u1", "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a"),
        "y_test": Array((10000,), "|u1", "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9"),
        "class_names": Array((10,), "<U11", "ffeee533820871a4777cf4574f223716f62c2f84dc77f4bf2e8e0c1275e7e35e"),
    },
)
_NOTMNIST = Edition(
    "the small set",
    {
        "x_test": Array((18724, 28, 28), "|u1", "3febd18bde304110ddaed9df8092cf19b55457a37cfc08743ea9fd4671f8fcf4"),
        "y_test": Array((18724,), "|u1", "4ad056553f3eb2a0ebb335a50b00661222f487b26af230623f2b62563767a681"),
        "class_names": Array((10,), "<U1", "eccfaceb9226a7788fad03154c9d508428e8c3ba8c308dd1eff1518c3ee39890"),
    },
)
_CIFAR10_SUBSET = Edition(
    SUBSET,
    {
        "y_train": Array((12000,), "|u1", "7f5121b91633cb866e7d492adadb29d6d2d1a7484e905b1fc8bb483e83c50ffe"),
        "index_train": Array((12000,), "<u2", "f24c7a7d0c9cd1722fd786371f3716df8444640296a840afe9b1d0d33ae96df5"),
        "y_test": Array((4000,), "|u1", "24a56c9051de627ee820dc21f0af248286ccaf650601ae8a0537afee268b3af0"),
        "index_test": Array((4000,), "<u2", "9cac460d31df0b4a453a1b0a4922b844b56eb4e40861612c19ab0ed09040d855"),
        "class_names": Array((10,), "<U10", "0cd4e425527caa80530bc5c762cd5a696c8e31782e3984fe3cedcf5c4e5ac572"),
        "x_train": Array((12000, 32, 32, 3), "|u1", "f517724b9d9f1dff8045d91c0fa09e7c8ea4c563bd5a477919a9c91dfb123450"),
        "x_test": Array((4000, 32, 32, 3), "|u1", "455376c0654611a9c70e0a326bfc9a5760826ade1fe0db8c07602814c07a234e"),
    },
)
_CIFAR10 = Edition(
    OFFICIAL,
    {
        "x_train": Array((50000, 32, 32, 3), "|u1", "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a"),
        "y_train": Array((50000,), "|u1", "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253"),
        "x_test": Array((10000, 32, 32, 3), "|u1", "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04"),
        "y_test": Array((10000,), "|u1", "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5"),
        "class_names": _CIFAR10_SUBSET.arrays["class_names"],
    },
)
_CIFAR100 = Edition(
    "the official images, ordered by class",
    {
        "x_train": Array((50000, 32, 32, 3), "|u1", "1bb4c3ac28f36e4c81649a264fed054a2abdfe4bc4721727da387efc31e2b943"),
        "y_train": Array((50000,), "|u1", "b82b76193269ebe8bea5773072ae1e0039d7cf8e9eca263ce0e2a7352a1cf40c"),
        "x_test": Array((10000, 32, 32, 3), "|u1", "4430ff57e47c476780c11026ae58eb95f14879181eb17925a03bedc240504e96"),
        "y_test": Array((10000,), "|u1", "06889c17a5799e0e10d0f5d6705e17779c7c3ad0c729933bc7c4d7658cb31d3e"),
        "class_names": Array((100,), "<U13", "fdfe43fd1c56f307c18f45a6b15965b98be1bcd2d5462f85525b7a885cac0ea8"),
        "coarse": Array((100,), "|u1", "ecf260ffe6b76db06170e661a0949d85c97ceaa385aaf4b461a149c374c2b3cc"),
    },
)
_SVHN_SUBSET = Edition(
    SUBSET,
    {
        "y_train": Array((10000,), "|u1", "88f2b74a4c5ca36e27b528f0476f4b5ff4baca67e63eaa5482d906730c458067"),
        "index_train": Array((10000,), "<u4", "9b6be2c0e8496a9a523360d6901208394c2c16bdab31064b982691ab391df8c0"),
        "y_test": Array((5000,), "|u1", "56f52bc77c3d1b2d9b33c5d0a6f0847c91139cf241f808e39ba32ffddc10a608"),
        "index_test": Array((5000,), "<u2", "05fdbd1af42c73db835ce70c27003f1f4cca2bba78902289d2df5e8eacb50de5"),
        "x_train": Array((10000, 32, 32, 3), "|u1", "a1712e8b16ff3a74180524d30f874132a96ea8702aaa7a1cd6d7392d6840aee8"),
        "x_test": Array((5000, 32, 32, 3), "|u1", "7ed94fbe2cd0385bb3849df352c7ba0985a47827ddb16f677f264b7c8dc5569b"),
    },
)
_SVHN_RECROPPED = Edition(
    "re-cropped",
    {
        "x_train": Array((73257, 32, 32, 3), "|u1", "48063b48df71aee0101eb5addd95efb9272727e2c7e3d052997128be94035dd7"),
        "y_train": Array((73257,), "|u1", "6a6e359bb9ecc6ce40896703f7b224715776155fe39710e0ddb8008a18172c6f"),
        "x_test": Array((26032, 32, 32, 3), "|u1", "087e0ada253ee6fa9fea6b27a60cdf4d36218753423c085b2a2b5943108e80a4"),
        "y_test": Array((26032,), "|u1", "c2488ef300c629f4bd90a3d2a7b4141589e5b5a4f9046845dfc1a9021319e31a"),
    },
)
# The official pixels were never at hand: a receipt of the download has to vouch for them.
_SVHN = Edition(
    OFFICIAL,
    {
        **_SVHN_RECROPPED.arrays,
        "x_train": Array((73257, 32, 32, 3), "|u1"),
        "x_test": Array((26032, 32, 32, 3), "|u1"),
    },
)
_OLIVETTI = Edition(
    "the faces in scikit-learn's order",
    {
        "x": Array((400, 64, 64), "|u1", "a3f75007cc103363b61a63e06bec8ea4846407682ef6e7c9ae1eb9c1bd0e8a00"),
        "y": Array((400,), "|u1", "2be463dfffb2fd54a24b159096fcda94b081231af18675570e89f8482dd2ea8d"),
    },
)
_MUSHROOM = Edition(
    OFFICIAL,
    {
        "x": Array((8124, 22), "|S1", "be06f344e64f6913ff89809fa7576f0e7fc3fc02d1dd5e0367b7925eab10ca69"),
        "y": Array((8124,), "|S1", "099a43ddfe377931f534f30fb17b9adb58476d393bb9fb8ea5191b7ca6fd8830"),
        "feature_names": Array((22,), "<U24", "15e0566773258923cc7374c4f33b5e0ec6bb4c990b9cf3c32c448cdeb4cb3701"),
    },
)
_SHUTTLE = Edition(
    OFFICIAL,
    {
        "x": Array((58000, 9), "<i2", "dca243ebb5fb50f6f1db65fddcf673902b970fb0391770a178716e99a82f8bc2"),
        "y": Array((58000,), "|u1", "76d9aade4a071aa7f79539cb9331cbfef9eadb01773abcdf5736259213c0b356"),
        "class_names": Array((7,), "<U9", "3f6069559a23b11e05fc3d9771b6672c33ce5703a390fa55577742cc1c55389d"),
        "n_train": Array((), "<i8", "0aebd5154afc93a6d65d6c87350f717200563d235f04b7df686468cd72d19c3c"),
    },
)
_COVERTYPE = Edition(
    OFFICIAL,
    {
        "x": Array((581012, 54), "<i2", "1d8ed656c88560e0f10ec542ecfd4b4b2f1dbd17ec145c29918aebb63a8c0e6f"),
        "y": Array((581012,), "|u1", "a8c84e2a391539f29963e3be74076a5b49598e60e7a6b0a353fdbf1bd6c2c422"),
        "feature_names": Array((54,), "<U34", "59b4347d5dad16a7c1df2338221386cc132132643bd898ef192f3a3062bb25ea"),
    },
)
_ADULT = Edition(
    OFFICIAL,
    {
        "x_num": Array((48842, 6), "<i4", "3dcbde3e676f96f7f24f7739f64a99612bde1ae61c42e1d29baf77f2dc40668a"),
        "num_names": Array((6,), "<U14", "a5d7e55d56b0b18529d553bf5ab054f6eb5a0bf8e1942285eb513787bec0b5ee"),
        "levels_workclass": Array((9,), "<U16", "046884f036cea2ae49baf0de3ea868db01d80a8da7cff2ccd7f1ca7ba9189427"),
        "levels_education": Array((16,), "<U12", "451cafbdddae49b0bdbf39e672ed71e3c6af209ecc8553449a758fb9b9640687"),
        "levels_marital-status": Array(
            (7,), "<U21", "37a9aaa3edb79eaa320652c79f0abd1f7eed72256365f5de83b7ea258f12ff03"
        ),
        "levels_occupation": Array((15,), "<U17", "e447e61df5ed45ca6ee3f6044d56848a54893fb07476dfa9a4ecef841da78ae9"),
        "levels_relationship": Array((6,), "<U14", "fe902c26310dd23807a0be08ce53529fc5bc5ff2d7d5b07ba31ef43014e33310"),
        "levels_race": Array((5,), "<U18", "0e8a11e4db006cab52908e1904193c1ebae5a42b697a0ffbd29c19293e114fd5"),
        "levels_sex": Array((2,), "<U6", "7b21886311c4d508fcbd6c4ac345ab8f51f11379e0a79219bc476316040de0d2"),
        "levels_native-country": Array(
            (42,), "<U26", "bba76664fa8187ce0249014a5f5587ea1b241a822453e8032d74f2b55e269442"
        ),
        "levels_income": Array((2,), "<U5", "66471e5f38ef8d0bc6fc9e65d61b03fd792e7b7d1914ae02d63ad0c9337b5a30"),
        "x_cat": Array((48842, 9), "|u1", "5cd1be95bd801dcbceaa25a709045081a02692e9d17bd186b4b16c80b6ec4077"),
        "cat_names": Array((9,), "<U14", "debdf5120c43cba8d0c1b117f24d64a1dc3d07156bf07c43996132692097d0b8"),
        "n_train": Array((), "<i8", "ccfe96d862f7b647117e79769c36d030bf1b1937a6ecbad5bc190e394ee257cf"),
    },
)
_UCI_REGRESSION = Edition(
    "nine tables and their splits",
    {
        "x_boston": Array((506, 13), "<f8", "58d9abef45a8e00c844d74ff0027c96d21a8a237d7ba7e4c0c30b11dcdafde10"),
        "y_boston": Array((506,), "<f8", "a7a4a2bed7266f5e88acd2854ae97af5206bed564ab217810535d4cd14d76edb"),
        "test_boston": Array((20, 51), "<u2", "01496192acbde89af2794d395f9b76cdbaa1e9f774769b275e26f4cb1d67b112"),
        "x_concrete": Array((1030, 8), "<f8", "c4f7f8fda5b3d88e68498336fd4c640b7c7215e13e58be2549e1d4251d005f26"),
        "y_concrete": Array((1030,), "<f8", "6a51bf86903430946bc63cad7bd665ee89132a2bb413172e60b7afe14800f013"),
        "test_concrete": Array((20, 103), "<u2", "ed56fbcd461268818db2248cb077f0a3195b165c0b3f9663ba978493046bcc52"),
        "x_energy": Array((768, 8), "<f8", "394f967b71ba5a86a0eec3d218a9bdba1d035895c4d9f2223dfd8d64f93258fe"),
        "y_energy": Array((768,), "<f8", "79a552da5262251cc9509e6c184f84db3cf9a62a1a41e993b0023f2ba9a1fe22"),
        "test_energy": Array((20, 77), "<u2", "b54ca40187e9c5bafbf108369f6a861233b8163c1c7b21309b7380547e5f717e"),
        "x_kin8nm": Array((8192, 8), "<f8", "40fe658abf608fb41492e445d8e89d3a5f5daeee62e29ebdac02f329f1cf6dff"),
        "y_kin8nm": Array((8192,), "<f8", "a16dfbf651526e3e7a7543c7ba12c93e50ca2baecd284e62671fad99b9ea1fb4"),
        "test_kin8nm": Array((20, 819), "<u2", "f459012606c8f974574f676fd38ed2bbe38e538d9038168b5594fcc33eabb572"),
        "x_naval": Array((11934, 16), "<f8", "7206828144245475bf4d7620d12cea8378b4212866a7c9e94ab49a02a0402b8b"),
        "y_naval": Array((11934,), "<f8", "325f8fec7abe20a5df9a4767ae05c26576320c1df2f9d24b176e7a2941ed6e47"),
        "test_naval": Array((20, 1193), "<u2", "0bae44e9f43795e02a69f97c42add526535df96ff7ba9489646d84b36eca5412"),
        "x_power": Array((9568, 4), "<f8", "738126c94648654d3ac7514716695c19957f4bb8e8ecdff7b8a2c61ffb858bb7"),
        "y_power": Array((9568,), "<f8", "b84c1488b08e6ec560bbabfc57013ca515259eaa0abc7dafec26b31a2c484424"),
        "test_power": Array((20, 957), "<u2", "8085fdb0815438fa9f89ca02e79699ffeb117bce260c3fad3caca51479c7c999"),
        "x_protein": Array((45730, 9), "<f8", "b191e61db326c95c38cbfdc8f963abd6a78018de5b3dcac60f2f9112859abd06"),
        "y_protein": Array((45730,), "<f8", "3c467e6bbcc4f151c7f8536c1296b4513035b83e7bdc3464e57b7dc4b0264d95"),
        "test_protein": Array((5, 4573), "<u2", "60c3df9e39d5d2ccecf844cb73ad07e5b564a00154c8a0020723bf17b3a490ca"),
        "x_wine": Array((1599, 11), "<f8", "9f40e7499030fb1aebbaed39a614fdac96d1c997b6abad2502f6386d1734ed9b"),
        "y_wine": Array((1599,), "<f8", "857552cf21124c681133662195ef3c2115025105d510d53a2929ca0c4907f097"),
        "test_wine": Array((20, 160), "<u2", "fa19db664581391a66dc99dd888a5389f19b49d83038e19825860f810f1cc606"),
        "x_yacht": Array((308, 6), "<f8", "cfee469bd75844078732e2197f89767cf7c3feb11848e40b7085ea648898da72"),
        "y_yacht": Array((308,), "<f8", "830b8fefb460a74aeeb6d46aa8869501ddcd9d97cd12d64b05461b95fc4793c2"),
        "test_yacht": Array((20, 31), "<u2", "5d78897d2218ab238ec0f870589d7d84bdb82e78804baf9502f04998d0ccc9c9"),
    },
)
_TINYSHAKESPEARE = Edition(
    OFFICIAL, {"text": Array((1115394,), "|u1", "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed")}
)

KNOWN: dict[str, tuple[Edition, ...]] = {
    "mnist": (
        _MNIST,
        _in_any_order(
            _MNIST,
            train="3655811c0e1223700a4714a92a51f55bd215ed7dc1fa2baa4326a2b58042d82d",
            test="634538fb34c5277fce98470b8b285d1e8419eb87f328da42ef1faf690d2c3911",
        ),
    ),
    "fashion_mnist": (
        _FASHION_MNIST,
        _in_any_order(
            _FASHION_MNIST,
            train="0c69d5cdeb902b69084012f812f066de080317bb3c64f43ca87f910d8ec86906",
            test="90c92c0507755a7d443edde8297ce4d0f131e42884e2e87e7fc9b81ffe215258",
        ),
    ),
    "notmnist": (
        _NOTMNIST,
        _in_any_order(_NOTMNIST, test="efaff5ed43131789b4df845bd4f89b583902d6abf597159e5352091dd2469239"),
    ),
    "cifar10": (
        _CIFAR10,
        _CIFAR10_SUBSET,
        _in_any_order(
            _CIFAR10,
            train="d59acf989e068e709ce686cda292672c7b212c08d29d3d3e6d8c3aa99eba6a85",
            test="899683d46c3a8c66fd56e1af12202e69fe5a4517be10b0f68e04c78fe585c57c",
        ),
    ),
    "cifar100": (
        _CIFAR100,
        _in_any_order(
            _CIFAR100,
            train="36ce7a701fbea47796e570c34382aad50f2539687cfcbc6ae96e2f56530d29b6",
            test="d3cd5d87a1b9317a0982c8ef5535fe3b86da8da90b13ce5e9b23ea06400dd5eb",
        ),
    ),
    "svhn": (_SVHN_RECROPPED, _SVHN_SUBSET, _SVHN),
    "olivetti_faces": (_OLIVETTI,),
    "mushroom": (_MUSHROOM,),
    "shuttle": (_SHUTTLE,),
    "covertype": (_COVERTYPE,),
    "adult": (_ADULT,),
    "uci_regression": (_UCI_REGRESSION,),
    "tinyshakespeare": (_TINYSHAKESPEARE,),
}
