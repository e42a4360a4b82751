import com.google.gson.Gson;
import com.google.gson.JsonObject;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.embedded.EmbeddedChannel;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.AclUtils;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.auth.authentication.builder.DefaultAuthenticationContextBuilder;
import org.apache.rocketmq.auth.authentication.context.DefaultAuthenticationContext;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Signs requests, and verifies them, with RocketMQ's own classes.
 *
 * <p>Each line of standard input is a JSON object. With {@code accessKey} its {@code frame} (hex) is
 * signed by {@code secretKey}, with {@code securityToken} if there is one, and comes back
 * as a line with the signed frame. Without, the frame is verified: the line that comes back
 * has its user, its signature and the one that {@code secretKey} makes of it.
 */
public final class SignTool {
    private static final ChannelHandlerContext CONTEXT =
            new EmbeddedChannel(new ChannelInboundHandlerAdapter()).pipeline().firstContext();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        Gson gson = new Gson();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonObject asked = gson.fromJson(line, JsonObject.class);
            byte[] frame = HexFormat.of().parseHex(asked.get("frame").getAsString());
            // The decoder of RocketMQ gets what follows the length.
            RemotingCommand request =
                    RemotingCommand.decode(ByteBuffer.wrap(frame, 4, frame.length - 4).slice());
            String secretKey = asked.get("secretKey").getAsString();
            JsonObject found = new JsonObject();
            if (asked.has("accessKey")) {
                sign(request, asked, secretKey, found);
            } else {
                verify(request, secretKey, found);
            }
            out.println(gson.toJson(found));
        }
    }

    private static void sign(
            RemotingCommand request, JsonObject asked, String secretKey, JsonObject found) {
        SessionCredentials user =
                new SessionCredentials(asked.get("accessKey").getAsString(), secretKey);
        if (asked.has("securityToken")) {
            user.setSecurityToken(asked.get("securityToken").getAsString());
        }
        new AclClientRPCHook(user).doBeforeRequest("127.0.0.1:1", request);
        ByteBuffer encoded = request.encode();
        byte[] bytes = new byte[encoded.remaining()];
        encoded.get(bytes);
        found.addProperty("frame", HexFormat.of().formatHex(bytes));
    }

    private static void verify(RemotingCommand request, String secretKey, JsonObject found)
            throws Exception {
        DefaultAuthenticationContext context = context(request);
        found.addProperty("accessKey", context.getUsername());
        found.addProperty("signature", context.getSignature());
        found.addProperty("expected", AclUtils.calSignature(context.getContent(), secretKey));
    }

    /** Versions differ in the arguments of the builder. */
    private static DefaultAuthenticationContext context(RemotingCommand request) throws Exception {
        DefaultAuthenticationContextBuilder builder = new DefaultAuthenticationContextBuilder();
        for (java.lang.reflect.Method one : builder.getClass().getMethods()) {
            Class<?>[] kinds = one.getParameterTypes();
            boolean isOurs =
                    one.getName().equals("build") && kinds[kinds.length - 1] == RemotingCommand.class;
            if (isOurs) {
                Object[] given =
                        kinds.length == 1 ? new Object[] {request} : new Object[] {CONTEXT, request};
                return (DefaultAuthenticationContext) one.invoke(builder, given);
            }
        }
        throw new IllegalStateException("no builder for requests");
    }

    private SignTool() {}
}
