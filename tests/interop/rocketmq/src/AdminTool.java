import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * mqadmin, any number of commands in one process.
 *
 * <p>Each line of standard input is a command, as a JSON list of words; what it printed
 * comes back as a line with one JSON string.
 */
public final class AdminTool {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        Gson gson = new Gson();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(said, true, "UTF-8");
            System.setOut(both);
            System.setErr(both);
            MQAdminStartup.main0(gson.fromJson(line, String[].class), null);
            both.flush();
            out.println(gson.toJson(said.toString("UTF-8")));
        }
        // The clients' threads would go on for ever.
        Runtime.getRuntime().halt(0);
    }

    private AdminTool() {}
}
